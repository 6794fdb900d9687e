import { z } from 'zod';
import {
  httpUrl,
  list,
  loadConfig,
  postgresUrl,
  processShape,
} from '../../services/platform/config.ts';
import { runMain } from '../../services/platform/run-main.ts';
import { readOptions } from './options.ts';
import { startStack } from './stack.ts';

const options = readOptions(process.argv);

await runMain(
  'npm start',
  async () => {
    const env = loadConfig({
      DATABASE_URL: postgresUrl.optional().describe('A database to use, as its migrator'),
      KAFKA_BROKERS: list.default([]).describe('Brokers to use with --kafka'),
      OIDC_ISSUER: httpUrl
        .optional()
        .describe('Where partners sign in, instead of the bundled identity'),
      OIDC_CLIENT_ID: z
        .string()
        .min(1)
        .optional()
        .describe('Client id of the gateway at that issuer'),
      OIDC_CLIENT_SECRET: z.string().min(1).optional().describe('Its secret'),
      LOG_LEVEL: processShape.LOG_LEVEL.unwrap().default('warn'),
    });
    const { OIDC_CLIENT_ID: clientId, OIDC_CLIENT_SECRET: clientSecret } = env;
    return startStack(options, {
      databaseUrl: env.DATABASE_URL,
      kafkaBrokers: env.KAFKA_BROKERS,
      oidcIssuer: env.OIDC_ISSUER,
      oidcClient: clientId && clientSecret ? { clientId, clientSecret } : undefined,
      logLevel: env.LOG_LEVEL,
    });
  },
  { finishStart: true },
);
