rota policies
rota policies las --json
rota policies nonesuch
