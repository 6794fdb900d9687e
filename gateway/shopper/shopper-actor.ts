import { Actor_Kind } from '../../proto/gen/rms/common/v1/actor_pb.ts';

/** The actor that is recorded for what shoppers do: they have no account. */
export const SHOPPER = { kind: Actor_Kind.SERVICE, id: 'shopper', name: 'Shopper' } as const;
