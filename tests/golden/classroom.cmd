# A class's tasks share four GPUs by memory and share.
rota trace info scenarios/classroom.toml --cluster t4:4
rota sim --trace scenarios/classroom.toml --cluster t4:4 --place best-fit --policy fcfs
