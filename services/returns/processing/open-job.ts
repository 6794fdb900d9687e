/** SQL: a row of `processing_jobs` has not ended. A cancellation has one state while it is queued and while it runs. */
export const OPEN_JOB = "state in ('queued', 'running', 'cancelling')";
