import { randomInt } from 'node:crypto';
import { parseArgs } from 'node:util';

export interface Options {
  readonly seed: number;
  readonly full: boolean;
  /** Names of rows. Empty for all rows. */
  readonly only: readonly string[];
  /** See RowContext. */
  readonly slack: number;
  readonly list: boolean;
  /** Whether to write the table into docs/fault-suite.md. */
  readonly writeDocs: boolean;
  /** A file for the result as JSON. */
  readonly json?: string;
}

const USAGE = `usage: npm run test:faults -- [options]
  --seed <n>     repeat the random choices of a run; a fresh seed otherwise
  --only <row>   this row; may be given several times, or as the beginning of a name
  --full         the long form, about an hour
  --slack <n>    promised times are judged n times as long; 2, with --full 1, by default
  --list         the rows, and what must hold in each
  --json <file>  the result as JSON, besides
  --write-docs   put the table into docs/fault-suite.md`;

/** @throws Error with the usage when the arguments are invalid. */
export function parseOptions(args: readonly string[]): Options {
  try {
    const { values } = parseArgs({
      args: [...args],
      options: {
        seed: { type: 'string' },
        full: { type: 'boolean', default: false },
        only: { type: 'string', multiple: true, default: [] },
        slack: { type: 'string' },
        list: { type: 'boolean', default: false },
        json: { type: 'string' },
        'write-docs': { type: 'boolean', default: false },
      },
    });
    const seed = values.seed === undefined ? randomInt(1, 2 ** 31) : Number(values.seed);
    if (!Number.isSafeInteger(seed)) throw new Error('--seed must be a whole number');
    const slack = Number(values.slack ?? (values.full ? 1 : 2));
    if (!(slack >= 1)) throw new Error('--slack must be a number from 1');
    return {
      seed,
      slack,
      full: values.full,
      only: values.only,
      list: values.list,
      writeDocs: values['write-docs'],
      ...(values.json !== undefined && { json: values.json }),
    };
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`${reason}\n${USAGE}`, { cause });
  }
}
