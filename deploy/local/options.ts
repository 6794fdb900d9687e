import { Command, InvalidArgumentError } from 'commander';

/** What `npm start` was asked for. */
export interface StartOptions {
  /** Run over a Kafka broker instead of the in-process bus. */
  readonly kafka: boolean;
  /** Keeps the data between runs; a fresh folder, removed at the end, when absent. */
  readonly data?: string;
  /** Port of the gateway. */
  readonly port?: number;
  /** Where the version calendar stands. */
  readonly calendar?: Date;
  /** Whether shops, users and returns are made. */
  readonly demo: boolean;
  /** Where the stack file is written. */
  readonly stack: string;
}

function portNumber(text: string): number {
  const port = Number(text);
  if (!Number.isInteger(port) || port < 1 || port > 65_535) {
    throw new InvalidArgumentError('wants a port between 1 and 65535');
  }
  return port;
}

function day(text: string): Date {
  const date = new Date(`${text}T00:00:00Z`);
  if (!/^\d{4}-\d{2}-\d{2}$/.test(text) || Number.isNaN(date.getTime())) {
    throw new InvalidArgumentError('wants a date such as 2027-08-01');
  }
  return date;
}

/** Reads the command line of `npm start`; prints help or what is wrong, and exits, where that was asked for or needed. */
export function readOptions(argv: readonly string[]): StartOptions {
  return new Command('npm start --')
    .description('Runs the whole system in one process, with demo data.')
    .option('--kafka', 'over a Kafka broker: KAFKA_BROKERS, else one of its own (Java 17)', false)
    .option('--data <folder>', 'keep the data in this folder between runs')
    .option('--port <number>', 'port of the gateway (a free one by default)', portNumber)
    .option('--calendar <date>', 'let the API version calendar stand at this day', day)
    .option('--no-demo', 'start without shops, users and returns')
    .option('--stack <file>', 'where the stack file is written', '.local/stack.json')
    .parse(argv)
    .opts<StartOptions>();
}
