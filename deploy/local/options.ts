import { Command, InvalidArgumentError } from 'commander';

/** The options of `npm start`. */
export interface StartOptions {
  /** Uses a Kafka broker instead of the in-process bus. */
  readonly kafka: boolean;
  /** Folder for data that is kept between runs; when absent, a new folder that is deleted at the end. */
  readonly data?: string;
  /** Port of the gateway. */
  readonly port?: number;
  /** Fixed date of the version calendar. */
  readonly calendar?: Date;
  /** Whether shops, users and returns are created. */
  readonly demo: boolean;
  /** Path of the stack file. */
  readonly stack: string;
}

function portNumber(text: string): number {
  const port = Number(text);
  if (!Number.isInteger(port) || port < 1 || port > 65_535) {
    throw new InvalidArgumentError('must be a port between 1 and 65535');
  }
  return port;
}

function day(text: string): Date {
  const date = new Date(`${text}T00:00:00Z`);
  if (!/^\d{4}-\d{2}-\d{2}$/.test(text) || Number.isNaN(date.getTime())) {
    throw new InvalidArgumentError('must be a date such as 2027-08-01');
  }
  return date;
}

/** Parses the command line of `npm start`. For --help and for errors it prints a message and exits. */
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
