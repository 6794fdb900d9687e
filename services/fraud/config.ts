import { grpcTarget, serviceShape } from '../platform/process/config.ts';

export const fraudShape = {
  ...serviceShape,
  RETURNS_TARGET: grpcTarget.describe('gRPC name of the returns service'),
};
