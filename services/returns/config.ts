import { z } from 'zod';
import { grpcTarget, serviceShape } from '../platform/config.ts';

/** The variables of the returns service. */
export const returnsShape = {
  ...serviceShape,
  DESTINATIONS_TARGET: grpcTarget
    .default('dns:///destinations:8080')
    .describe('gRPC name of the destinations service'),
  FRAUD_TARGET: grpcTarget.default('dns:///fraud:8080').describe('gRPC name of the fraud service'),
  COMMERCE_PROVIDER: z
    .enum(['embedded'], { error: 'must be embedded' })
    .default('embedded')
    .describe(
      'Commerce provider for processing. `embedded` has its own ledger and moves no money, so in production it processes only returns of sandbox shops',
    ),
};
