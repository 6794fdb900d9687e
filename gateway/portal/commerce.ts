import type { GetConnectionRequest } from '../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { reasonOf } from '../../services/platform/values/errors.ts';
import type { ActionContext } from '../actions/context.ts';
import { addressWithoutSecrets, changesOf } from '../tenancy/field-change.ts';

/** Empty for a shop that is not connected: that is no error of the page. */
export async function readConnection(
  { services }: ActionContext,
  request: Omit<GetConnectionRequest, '$typeName'>,
) {
  try {
    return await services.commerce.getConnection(request);
  } catch (error) {
    if (reasonOf(error) !== ErrorReason.COMMERCE_CONNECTION_NOT_FOUND) throw error;
    return {};
  }
}

/** Notes for the audit log the new address, and whether the change was forced. */
export function noteConnection(
  { noteChanges }: ActionContext,
  { url, force }: { readonly url?: string; readonly force: boolean },
): void {
  noteChanges?.(
    changesOf({
      ...(url !== undefined && { url: [undefined, addressWithoutSecrets(url)] }),
      force: [undefined, force ? 'yes' : undefined],
    }),
  );
}
