import type { DescMethod, MessageInitShape, MessageShape } from '@bufbuild/protobuf';
import type { HandlerContext } from '@connectrpc/connect';
import type { ActionContext } from '../actions/context.ts';
import { hasRight, type RightName } from '../actions/rights.ts';
import type { Services } from '../services.ts';
import { callOf } from './call.ts';
import { keyOf } from './fields.ts';

/** What the portal adds to the call of a service. */
export interface Forwarding<M extends DescMethod> {
  /**
   * Calls the service when the request of the page is not enough, such as with fields that the page does not choose.
   *
   * @param request with the shop, the actor and the key of the session.
   */
  readonly call?: (
    context: ActionContext,
    request: Omit<MessageShape<M['input']>, '$typeName'>,
  ) => Promise<MessageInitShape<M['output']>>;
  /** Notes what the call changed, for the audit log. */
  readonly note?: (
    context: ActionContext,
    response: MessageShape<M['output']>,
    request: MessageShape<M['input']>,
  ) => void;
  /** Removes from the response what the page does not get, for any role or for users without a right. */
  readonly hide?: (response: MessageShape<M['output']>, may: (right: RightName) => boolean) => void;
}

/**
 * Returns the handler of a method that the page calls as the service has it. Shop, actor and key come from the session,
 * whatever the page sends.
 */
export function forwarded<M extends DescMethod>(
  method: M,
  { call: send, note, hide }: Forwarding<M>,
) {
  return async (request: MessageShape<M['input']>, handler: HandlerContext) => {
    const call = callOf(handler);
    const { context, session, actor } = call;
    const { $typeName: _, ...fields } = request;
    const key = 'idempotencyKey' in fields && {
      idempotencyKey: keyOf(call, String(fields.idempotencyKey)),
    };
    const full = { ...fields, ...key, shopId: session.shopId, actor };
    const response = await (send ? send(context, full) : rpcOf(context.services, method)(full));
    note?.(context, response, request);
    hide?.(response, (right) => hasRight(session.role, right));
    return response;
  };
}

/** The RPC of the client of a service, such as `rms.destinations.v1`. */
function rpcOf(services: Services, { parent, localName }: DescMethod) {
  const [, name = ''] = parent.typeName.split('.');
  return Reflect.get(Reflect.get(services, name), localName);
}
