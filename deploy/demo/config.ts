import { z } from 'zod';
import { httpUrl, identityShape, port, postgresUrl } from '../../services/platform/config.ts';

const address = httpUrl.refine((url) => !url.endsWith('/'), 'must have no slash at its end');

/** The variables of the demo in a cluster for development. */
export const demoShape = {
  HOST: z.string().default('127.0.0.1').describe('Address to listen on; 0.0.0.0 in a pod'),
  PORT: port.default(8080).describe('TCP port of the receiver of webhooks'),
  IDENTITY_PORT: port.default(8090).describe('TCP port of the identity provider'),
  GATEWAY_DATABASE_URL: postgresUrl.describe('The schema of the gateway, where shops and keys are'),
  RETURNS_DATABASE_URL: postgresUrl.describe('The schema of returns, for returns that fail'),
  PUBLIC_BASE_URL: address.describe('Public address of the gateway'),
  SIGN_IN_ISSUER: address.describe('Public address of the identity provider'),
  RECEIVER_URL: address.describe('Address at which the webhooks service reaches the receiver'),
  SERVICE_TOKEN: identityShape.SERVICE_TOKEN.unwrap(),
  SIGN_IN_CLIENT_ID: z.string().describe('Client of the gateway at the identity provider'),
  SIGN_IN_CLIENT_SECRET: z.string().describe('Its secret'),
};

export type DemoConfig = z.infer<z.ZodObject<typeof demoShape>>;
