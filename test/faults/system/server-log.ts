import { readFile } from 'node:fs/promises';

/** Finds processes of PostgreSQL that a signal ended, in the server's log. */
export interface Crashes {
  /** Reads new lines of the log. */
  look(): Promise<void>;
  /** Skips new lines of the log, which are about processes that the suite has killed. */
  skip(): Promise<void>;
  /** Reads new lines, and returns the crashes since the last call. */
  take(): Promise<string[]>;
}

/** Follows the log in this file, which must exist at each read. */
export function followCrashes(file: string): Crashes {
  const found: string[] = [];
  let seen = 0;
  const news = async (): Promise<string[]> => {
    const text = await readFile(file, 'utf8');
    const lines = text.slice(seen).split('\n');
    seen = text.length;
    return lines.filter((line) => line.includes('terminated by signal'));
  };
  const look = async (): Promise<void> => {
    found.push(...(await news()));
  };
  return {
    look,
    async skip() {
      await news();
    },
    async take() {
      await look();
      return found.splice(0);
    },
  };
}
