import type { MessageInitShape } from '@bufbuild/protobuf';
import type { Client } from '@connectrpc/connect';
import type { ActorSchema } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { ReturnMethod } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  LabelProvider,
  type ReturnsService,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';

/** The shop that returns are imported into. */
export interface ImportTarget {
  readonly shopId: bigint;
  readonly currency: string;
  readonly actor: MessageInitShape<typeof ActorSchema>;
  /** Not in the file. For a shop whose labels a third party makes, it is not `mail`, which would request a label. */
  readonly returnMethod: ReturnMethod;
}

/**
 * Reads the settings of a shop that an import needs.
 *
 * @param fileCurrency the currency of the file; undefined when not stated.
 * @throws Error when the file is in another currency than the shop's.
 */
export async function targetOf(
  returns: Client<typeof ReturnsService>,
  call: Pick<ImportTarget, 'shopId' | 'actor'>,
  fileCurrency?: string,
): Promise<ImportTarget> {
  const { settings } = await returns.getSettings(call);
  const currency = settings?.currency ?? '';
  if (fileCurrency && fileCurrency.toUpperCase() !== currency) {
    throw new Error(
      `the file is in ${fileCurrency.toUpperCase()} and shop ${call.shopId} in ${currency}: amounts are never converted`,
    );
  }
  const requestsLabels = settings?.labelProvider === LabelProvider.THIRD_PARTY;
  const returnMethod = requestsLabels ? ReturnMethod.DROP_OFF : ReturnMethod.MAIL;
  return { ...call, currency, returnMethod };
}
