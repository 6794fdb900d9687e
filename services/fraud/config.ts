import { grpcTarget, serviceShape } from '../platform/config.ts';

/** The environment variables of the fraud service. */
export const fraudShape = {
  ...serviceShape,
  RETURNS_TARGET: grpcTarget.describe('gRPC name of the returns service'),
};
