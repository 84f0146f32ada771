//! What would start a job sooner: the same fork, with the job asking for something else.
