import { Listr } from 'listr2';

/** Shows the progress of a step. */
export type ReportProgress = (text: string) => void;

/** Runs one step of the start and shows it with a spinner, its progress, and its success or failure. */
export async function step<T>(
  title: string,
  work: (report: ReportProgress) => Promise<T>,
): Promise<T> {
  const results: T[] = [];
  const run = async (_context: unknown, task: { output: string }) => {
    const report = (text: string) => {
      task.output = text;
    };
    results.push(await work(report));
  };
  await new Listr([{ title, task: run }]).run();
  const [result] = results;
  // Listr rejects when the work rejects, so here a result exists.
  return result as T;
}
