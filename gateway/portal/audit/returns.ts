import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { isUnavailable } from '../../../services/platform/values/errors.ts';
import { normalForm } from '../../../services/platform/values/text.ts';
import { type ActionContext, callerOf } from '../../actions/context.ts';
import type { AuditObjects } from '../../tenancy/audit-list.ts';
import { actionsAbout } from './words.ts';

/** Maximum number of returns that a search finds by an order name. */
const RETURNS_MAX = 20;

/**
 * What entries about a return name: the return, its labels, or its line items. An entry of several line items names all
 * of them, so only one that names each line item of the return is found.
 */
export function objectsOf({ id, labels, lineItems }: Return): AuditObjects[] {
  const lines = lineItems.map(({ lineItemId }) => String(lineItemId));
  return [
    { actions: actionsAbout('return'), subjects: [String(id)] },
    { actions: actionsAbout('label'), subjects: labels.map((label) => String(label.id)) },
    { actions: actionsAbout('line items'), subjects: [...lines, lines.join(' ')] },
  ];
}

/** The objects of the returns of an order name, with or without `#`. None while the returns service is unavailable. */
export async function objectsOfOrder(
  context: ActionContext,
  name: string,
): Promise<AuditObjects[]> {
  const { returns } = await context.services.returns
    .searchReturns({
      ...callerOf(context),
      query: name,
      includeArchived: true,
      withoutLongTexts: true,
      pageSize: RETURNS_MAX,
    })
    .catch((error: unknown) => {
      if (isUnavailable(error)) return { returns: [] };
      throw error;
    });
  const plain = (text = '') => normalForm(text).replace(/^#/, '');
  return returns.filter(({ order }) => plain(order?.name) === plain(name)).flatMap(objectsOf);
}
