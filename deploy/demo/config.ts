import { z } from 'zod';
import { grpcTarget, httpUrl, port, postgresUrl } from '../../services/platform/config.ts';

const address = httpUrl.refine((url) => !url.endsWith('/'), 'must have no slash at its end');
const target = (name: string) => grpcTarget.describe(`gRPC name of the ${name} service`);

/** The variables of the demo in a cluster for development. */
export const demoShape = {
  HOST: z.string().default('127.0.0.1').describe('Address to listen on; 0.0.0.0 in a pod'),
  PORT: port.default(8080).describe('TCP port of the receiver of webhooks'),
  MAIL_PORT: port.default(2525).describe('TCP port of the mail server'),
  IDENTITY_PORT: port.default(8090).describe('TCP port of the identity provider'),
  GATEWAY_DATABASE_URL: postgresUrl.describe('The schema with shops, people and keys'),
  RETURNS_DATABASE_URL: postgresUrl.describe('The schema with the ledger of the commerce provider'),
  RETURNS_TARGET: target('returns'),
  DISPOSITIONS_TARGET: target('dispositions'),
  DESTINATIONS_TARGET: target('destinations'),
  FRAUD_TARGET: target('fraud'),
  CARTS_TARGET: target('carts'),
  WEBHOOKS_TARGET: target('webhooks'),
  SERVICE_TOKEN: z.string().min(32).describe('Shared token of the services'),
  PUBLIC_BASE_URL: address.describe('Public address of the gateway'),
  SIGN_IN_ISSUER: address.describe('Public address of the identity provider'),
  SIGN_IN_CLIENT_ID: z.string().describe('Client of the gateway at the identity provider'),
  SIGN_IN_CLIENT_SECRET: z.string().describe('Its secret'),
  RECEIVER_URL: address.describe('Address of the receiver for the webhooks service'),
};

export type DemoConfig = z.infer<z.ZodObject<typeof demoShape>>;
