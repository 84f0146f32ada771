# The four jobs of the teaching project under the textbook policies.
rota trace info scenarios/teaching-four.csv --cluster t4:3
rota sim --trace scenarios/teaching-four.csv --cluster t4:3 --policy fcfs
rota sim --trace scenarios/teaching-four.csv --cluster t4:1 --policy wfq
rota sim --trace scenarios/teaching-four.csv --cluster t4:1 --policy rr:quantum=10
rota sim --trace scenarios/teaching-four.csv --cluster t4:1 --policy lottery:seed=7
