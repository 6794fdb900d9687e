import { readFile } from 'node:fs/promises';

/** Processes of a PostgreSQL that ended by a signal, according to its log. */
export interface Deaths {
  /** Reads new lines of the log. */
  look(): Promise<void>;
  /** Skips new lines of the log, for processes that the suite has killed. */
  skip(): Promise<void>;
  /** Reads new lines, and returns those collected since the last call. */
  take(): Promise<string[]>;
}

/** Follows the log in this file, which must exist at each read. */
export function followDeaths(file: string): Deaths {
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
