import type { MessageInitShape } from '@bufbuild/protobuf';
import type { ActorSchema } from '../../proto/gen/rms/common/v1/actor_pb.ts';

/** The caller of a request with a valid credential; it acts for one shop. */
export interface Caller {
  readonly shopId: bigint;
  readonly actor: MessageInitShape<typeof ActorSchema>;
  readonly scopes: readonly string[];
  /** The key of its rate limit: an API key or an installation. */
  readonly limitKey: string;
  /** REST requests per minute; null for the default. */
  readonly restPerMinute: number | null;
  /** Decides the challenge in the header of a 401 or 403. */
  readonly scheme: 'api-key' | 'bearer';
}
