import { readFile } from 'node:fs/promises';

/** What the log of a PostgreSQL tells of its processes that ended by a signal. */
export interface Deaths {
  /** Remembers what was written since the last look. */
  look(): Promise<void>;
  /** Forgets what was written since the last look: we killed them ourselves. */
  skip(): Promise<void>;
  /** Looks, and answers the lines remembered since this was asked last. */
  take(): Promise<string[]>;
}

/** Follows the log in this file, which must exist whenever it is looked at. */
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
