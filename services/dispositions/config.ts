import { grpcTarget, serviceShape } from '../platform/process/config.ts';

/** The variables of the dispositions service. */
export const dispositionsShape = {
  ...serviceShape,
  RETURNS_TARGET: grpcTarget.describe('gRPC name of the returns service'),
};
