import type { MessageInitShape } from '@bufbuild/protobuf';
import type { ActorSchema } from '../../proto/gen/rms/common/v1/actor_pb.ts';

/** Who makes a request, for one shop, once the credential has been found good. */
export interface Caller {
  readonly shopId: bigint;
  readonly actor: MessageInitShape<typeof ActorSchema>;
  readonly scopes: readonly string[];
  /** What its requests are counted under: a key, or an installation. */
  readonly limitKey: string;
  /** REST requests a minute when other than the default. */
  readonly restPerMinute: number | null;
  /** Decides which challenge a refusal carries. */
  readonly scheme: 'api-key' | 'bearer';
}
