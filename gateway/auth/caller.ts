import type { MessageInitShape } from '@bufbuild/protobuf';
import type { ActorSchema } from '../../proto/gen/rms/common/v1/actor_pb.ts';

/** The caller of a request with a valid credential. It acts for one shop. */
export interface Caller {
  readonly shopId: bigint;
  /** Whether the shop is a sandbox. */
  readonly sandbox: boolean;
  readonly actor: MessageInitShape<typeof ActorSchema>;
  readonly scopes: readonly string[];
  /** True when the person behind a partner's token may no longer connect apps. The token then has no scopes. */
  readonly lacksPermission?: boolean;
  /** Identifies the API key or the installation in its rate limit. */
  readonly limitKey: string;
  /** REST requests per minute; null for the default. */
  readonly restPerMinute: number | null;
  /** Selects the challenge in `WWW-Authenticate`. */
  readonly scheme: 'api-key' | 'bearer';
}
