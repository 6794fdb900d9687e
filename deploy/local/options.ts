import { Command, InvalidArgumentError } from 'commander';
import { z } from 'zod';
import {
  httpUrl,
  list,
  loadConfig,
  postgresUrl,
  processShape,
} from '../../services/platform/process/config.ts';
import { returnsShape } from '../../services/returns/config.ts';

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

/** External systems for the stack, from the environment. */
export interface ExternalSystems {
  readonly databaseUrl: string | undefined;
  readonly kafkaBrokers: readonly string[];
  /** An OpenID issuer to use instead of the bundled identity provider. */
  readonly oidcIssuer: string | undefined;
  /** The gateway's client at that issuer; without it nobody can sign in. */
  readonly oidcClient: { readonly clientId: string; readonly clientSecret: string } | undefined;
  /** The app that merchants install at Shopify; without it no shop can be connected there. */
  readonly shopifyApp: Partial<
    Pick<NodeJS.ProcessEnv, 'SHOPIFY_CLIENT_ID' | 'SHOPIFY_CLIENT_SECRET'>
  >;
  readonly logLevel: string;
}

/** Parses the command line of `npm start`. For --help and for errors it prints a message and exits. */
export function readOptions(argv: readonly string[]): StartOptions {
  return new Command('npm start --')
    .description('Runs the whole system in one process, with demo data.')
    .option(
      '--kafka',
      'use the Kafka brokers of KAFKA_BROKERS, else start a broker (Java 17)',
      false,
    )
    .option('--data <folder>', 'keep the data in this folder between runs')
    .option('--port <number>', 'port of the gateway (a free one by default)', portNumber)
    .option('--calendar <date>', 'fixed date of the API version calendar', day)
    .option('--no-demo', 'start without shops, users and returns')
    .option('--stack <file>', 'where the stack file is written', '.local/stack.json')
    .parse(argv)
    .opts<StartOptions>();
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

/** @throws ConfigError with everything that is wrong in the environment. */
export function readExternalSystems(): ExternalSystems {
  const env = loadConfig({
    DATABASE_URL: postgresUrl.optional().describe('A database to use, as its migrator'),
    KAFKA_BROKERS: list.default([]).describe('Brokers to use with --kafka'),
    OIDC_ISSUER: httpUrl
      .optional()
      .describe('Where people sign in, instead of the bundled identity provider'),
    OIDC_CLIENT_ID: z
      .string()
      .min(1)
      .optional()
      .describe('Client id of the gateway at that issuer'),
    OIDC_CLIENT_SECRET: z.string().min(1).optional().describe('Its secret'),
    SHOPIFY_CLIENT_ID: returnsShape.SHOPIFY_CLIENT_ID,
    SHOPIFY_CLIENT_SECRET: returnsShape.SHOPIFY_CLIENT_SECRET,
    LOG_LEVEL: processShape.LOG_LEVEL.unwrap().default('warn'),
  });
  const { SHOPIFY_CLIENT_ID: id, SHOPIFY_CLIENT_SECRET: secret } = env;
  const { OIDC_CLIENT_ID: clientId, OIDC_CLIENT_SECRET: clientSecret } = env;
  return {
    databaseUrl: env.DATABASE_URL,
    kafkaBrokers: env.KAFKA_BROKERS,
    oidcIssuer: env.OIDC_ISSUER,
    oidcClient: clientId && clientSecret ? { clientId, clientSecret } : undefined,
    shopifyApp: id && secret ? { SHOPIFY_CLIENT_ID: id, SHOPIFY_CLIENT_SECRET: secret } : {},
    logLevel: env.LOG_LEVEL,
  };
}
