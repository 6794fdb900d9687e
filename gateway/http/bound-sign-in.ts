import type { IncomingMessage, ServerResponse } from 'node:http';
import type { RequestHandler } from 'express';
import { HttpError, loadRetryAfterS } from '../errors.ts';
import { bodyArrived } from './body-arrived.ts';
import { ClientGone } from './client-gone.ts';
import { createConcurrentShare } from './concurrent-share.ts';
import type { Exchange } from './exchange.ts';
import type { InFlight, LoadName, Slot } from './in-flight.ts';
import { sendContinue } from './receive-body.ts';
import { send } from './respond.ts';

/**
 * Names for the paths of sign-ins and installs in logs and metrics, because the paths contain secrets. All these paths
 * share one bound of in-flight requests.
 */
const PATH_NAMES: readonly (readonly [RegExp, string])[] = [
  [/^\/\.well-known\/oauth-protected-resource(\/mcp)?$/, 'oauthResourceMetadata'],
  [/^\/\.well-known\/(openid-configuration|oauth-authorization-server)$/, 'oauthServerMetadata'],
  [/^\/oauth\/register$/, 'oauthRegister'],
  [/^\/oauth\/authorize$/, 'oauthAuthorize'],
  [/^\/oauth\/authorize\/[^/]+$/, 'oauthResume'],
  [/^\/oauth\/sign-in\/[^/]+(\/(shop|consent|allow|cancel))?$/, 'oauthSignIn'],
  [/^\/oauth\/callback$/, 'oauthCallback'],
  [/^\/oauth\/token$/, 'oauthToken'],
  [/^\/oauth\/revoke$/, 'oauthRevoke'],
  [/^\/oauth\/jwks$/, 'oauthKeys'],
  [/^\/\.well-known\/oauth-authorization-server\/partners$/, 'partnerServerMetadata'],
  [/^\/partners\/\.well-known\/openid-configuration$/, 'partnerServerMetadata'],
  [/^\/partners\/authorize$/, 'partnerAuthorize'],
  [/^\/partners\/authorize\/[^/]+$/, 'partnerResume'],
  [/^\/partners\/sign-in\/[^/]+(\/(shop|consent|allow|cancel))?$/, 'partnerSignIn'],
  [/^\/partners\/oauth\/token$/, 'partnerToken'],
  [/^\/partners\/oauth\/revoke$/, 'partnerRevoke'],
  [/^\/partners\/jwks$/, 'partnerKeys'],
  [/^\/portal\/sign-in$/, 'portalSignIn'],
  [/^\/portal\/callback$/, 'portalCallback'],
  [/^\/portal\/backchannel-logout$/, 'portalSignedOut'],
  [/^\/portal\/invitation(\/(sign-in|accept))?$/, 'portalInvitation'],
  [/^\/commerce\/shopify\/install$/, 'shopifyInstall'],
  [/^\/commerce\/shopify\/callback$/, 'shopifyCallback'],
];

/** The same for the pages of shoppers, which have a bound of their own. */
const SHOPPER_NAMES: typeof PATH_NAMES = [
  [/^\/r\/[^/]+$/, 'shopperFind'],
  [/^\/r\/[^/]+\/return$/, 'shopperReturn'],
  [/^\/r\/[^/]+\/withdraw$/, 'shopperWithdraw'],
  [/^\/r\/[^/]+\/s\/[^/]+(\/cancel)?$/, 'shopperStatus'],
];

/** The name of the path of a page or a form of people without a session; undefined for any other path. */
export function formPathName(path: string): string | undefined {
  return [...PATH_NAMES, ...SHOPPER_NAMES].find(([form]) => form.test(path))?.[1];
}

const loadOf = (operation: string): LoadName =>
  SHOPPER_NAMES.some(([, name]) => name === operation) ? 'shopper' : 'signIn';

/** Maximum share of the slots for one IP address. */
const ADDRESS_PART = 1 / 4;

/** The slots of the requests that have one, for {@link receiveForm}. */
const slots = new WeakMap<IncomingMessage, Slot>();

/**
 * Bounds the in-flight requests of the sign-in and of shoppers, in total and for each IP address. Above the bound a
 * request gets an OAuth error (RFC 6749, 4.1.2.1). A request occupies its slot while this process works for it, but not
 * while it waits for its body.
 */
export function boundSignIn(
  inFlight: InFlight,
  exchangeOf: (res: ServerResponse) => Exchange | undefined,
): RequestHandler {
  const maxOfAddress = Math.max(1, Math.floor(inFlight.sizeOf('signIn') * ADDRESS_PART));
  const count = createConcurrentShare(maxOfAddress);

  return async (req, res, next) => {
    const exchange = exchangeOf(res);
    if (!exchange?.operation) return next();
    // After a disconnect, there is no further `close` event that would release the slot.
    if (res.closed) return;
    if (!count(exchange.address, res)) return reject(req, res, 429);
    const slot = await inFlight.enter(loadOf(exchange.operation), exchange).catch(() => undefined);
    if (!slot) return reject(req, res, 503);
    if (res.closed) return slot.release();
    slots.set(req, slot);
    res.once('close', () => slot.release());
    next();
  };
}

/**
 * Waits for the body of a sign-in request, without a slot. Sends `100 Continue` if the client waits for it. In each
 * route it is directly before the handler that reads the body, so that earlier handlers can reject the request before
 * the client sends its body.
 */
export const receiveForm: RequestHandler = async (req, res, next) => {
  sendContinue(req, res);
  const slot = slots.get(req);
  try {
    await slot?.during(() => bodyArrived(req));
  } catch (error) {
    if (error instanceof ClientGone) return;
    if (!(error instanceof HttpError)) throw error;
    return reject(req, res, 503);
  }
  next();
};

const MESSAGES = {
  429: 'There are too many requests of this address at the moment. Try again shortly.',
  503: 'There are too many requests at the moment. Try again shortly.',
} as const;

function reject(
  req: IncomingMessage,
  res: ServerResponse,
  status: keyof typeof MESSAGES,
): Promise<void> {
  const message = MESSAGES[status];
  const error = 'temporarily_unavailable';
  return send(req, res, {
    status,
    headers: { 'Retry-After': String(loadRetryAfterS()), 'Cache-Control': 'no-store' },
    body: {
      contentType: 'application/json',
      json: { error, error_description: message, message, errors: {} },
    },
  });
}
