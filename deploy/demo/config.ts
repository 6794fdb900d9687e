import { createHash } from 'node:crypto';
import { z } from 'zod';
import { keyOf } from '../../gateway/auth/key-format.ts';
import { targetsShape } from '../../gateway/services.ts';
import { httpUrl, port, postgresUrl } from '../../services/platform/process/config.ts';

const address = httpUrl.refine((url) => !url.endsWith('/'), 'must have no slash at its end');

/** The variables of the demo in a cluster for development. */
export const demoShape = {
  HOST: z.string().default('127.0.0.1').describe('Address to listen on; 0.0.0.0 in a pod'),
  PORT: port.default(8080).describe('TCP port of the receiver of webhooks'),
  MAIL_PORT: port.default(2525).describe('TCP port of the mail server'),
  IDENTITY_PORT: port.default(8090).describe('TCP port of the identity provider'),
  GATEWAY_DATABASE_URL: postgresUrl.describe('The schema with shops, people and keys'),
  RETURNS_DATABASE_URL: postgresUrl.describe('The schema with the ledger of the commerce provider'),
  ...targetsShape,
  SERVICE_TOKEN: z.string().min(32).describe('Shared token of the services'),
  PUBLIC_BASE_URL: address.describe('Public address of the gateway'),
  SIGN_IN_ISSUER: address.describe('Public address of the identity provider'),
  SIGN_IN_CLIENT_ID: z.string().describe('Client of the gateway at the identity provider'),
  SIGN_IN_CLIENT_SECRET: z.string().describe('Its secret'),
  RECEIVER_URL: address.describe('Address of the receiver for the webhooks service'),
};

export type DemoConfig = z.infer<z.ZodObject<typeof demoShape>>;

/** Marks the secrets of the demo, which are public. deploy/check rejects secrets with this mark. */
const MARK = 'dev-only-';

/**
 * The secret with this name, the same at each call: an API key for `key:…`, otherwise a word that a person can type,
 * such as `dev-only-owner` for `password:owner`.
 */
export function demoSecret(name: string): string {
  if (!name.startsWith('key:')) return MARK + name.replace(/^\w+:/, '');
  const digits = createHash('sha256')
    .update(MARK + name)
    .digest('hex');
  // The id of a key has 12 characters, its secret 40.
  return keyOf(digits.slice(0, 12), digits.slice(12, 52)).text;
}
