import { Listr } from 'listr2';

/** Says how far a step is. */
export type Tell = (text: string) => void;

/** Runs one step of the start and shows it: a spinner, what it tells meanwhile, a tick or a cross. */
export async function step<T>(title: string, work: (tell: Tell) => Promise<T>): Promise<T> {
  const results: T[] = [];
  const run = async (_context: unknown, task: { output: string }) => {
    const tell = (text: string) => {
      task.output = text;
    };
    results.push(await work(tell));
  };
  await new Listr([{ title, task: run }]).run();
  const [result] = results;
  // Listr rejects when the work does, so there is a result.
  return result as T;
}
