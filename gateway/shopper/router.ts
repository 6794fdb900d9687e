import { Code, ConnectError } from '@connectrpc/connect';
import express, { type Request, type RequestHandler, Router } from 'express';
import type pg from 'pg';
import type { FindShopperPageResponse } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import type { Keyring } from '../../services/platform/security/keyring.ts';
import type { Logger } from '../../services/platform/telemetry/log.ts';
import { addressOf, type ClientIp } from '../auth/client-ip.ts';
import type { HourlyLimits } from '../auth/hourly-limits.ts';
import { receiveForm } from '../http/bound-sign-in.ts';
import { isCrossSite } from '../http/cross-site.ts';
import { EXACT_PATHS, endpoint } from '../http/endpoint.ts';
import { queryOf } from '../http/query.ts';
import type { ShopperMails } from '../mail/shopper-mails.ts';
import { type PageResponse, sendPage } from '../oauth/pages/response.ts';
import { cookieOf } from '../oauth/sign-in/cookies.ts';
import type { Services } from '../services.ts';
import { requireShop } from '../tenancy/shops.ts';
import { findPage } from './find-page.ts';
import { notePage, type View, WITHDRAW } from './frame.ts';
import type { LookUpLimits } from './limits.ts';
import { createShopperSessions } from './session.ts';
import { SHOPPER } from './shopper-actor.ts';
import { createShopperSteps, type Form, gonePage, type Visit } from './steps.ts';
import { showWithdraw, withdraw } from './withdraw.ts';
import { LANGUAGES, languageOf, type Words, wordsIn } from './words.ts';

/** The address of a shop's page for shoppers is this and the shop's handle. */
export const SHOPPER_PATH = '/r';

interface ShopperOptions {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  readonly services: Services;
  readonly clientIp: ClientIp;
  readonly publicUrl: string;
  readonly limits: HourlyLimits;
  readonly lookUps: LookUpLimits;
  /** Encrypts the sessions; without it there are no pages. */
  readonly keyring: Keyring | undefined;
  /** Undefined when mails are off. */
  readonly mails: ShopperMails | undefined;
}

/** Room for many comments, and little enough for strangers. */
const FORM_LIMIT = '128kb';
const MAX_FIELDS = 1_000;

const LANGUAGE_COOKIE = 'rms_language';
const LANGUAGE_COOKIE_S = 365 * 86_400;

/** Serves the pages of shoppers, `/r/{handle}` and below. */
export function shopperRouter(o: ShopperOptions): Router {
  const router = Router(EXACT_PATHS);
  const { keyring, publicUrl } = o;
  if (!keyring) return router;
  const sessions = createShopperSessions(keyring, publicUrl);
  const { returns } = o.services;
  const steps = createShopperSteps({ returns, sessions, limits: o.lookUps });
  const ownOrigin = new URL(publicUrl).origin;

  const pageHandler =
    (
      work: (visit: Visit, req: Request) => Promise<PageResponse>,
      here: (req: Request) => string = () => '',
    ): RequestHandler =>
    async (req, res) => {
      res.setHeader('Cache-Control', 'no-store');
      const { words, cookies } = languageFor(req);
      const base = `${SHOPPER_PATH}/${encodeURIComponent(String(req.params.handle))}`;
      const below = here(req);
      const place = { words, base, here: below === '' ? base : `${base}/${below}` };
      const nobody: View = { ...place, shopName: '', accent: '', supportEmail: '' };
      let view = nobody;
      const answer = async () => {
        const found = await shopOf(o, String(req.params.handle));
        if (!found) return gonePage(nobody);
        const { accent, supportEmail } = found;
        view = { ...place, shopName: found.name, accent, supportEmail };
        const { shopId } = found;
        const session = sessions.of(req, shopId);
        if (isCrossSite(req, ownOrigin)) return gonePage(view);
        const address = addressOf(o.clientIp, req);
        return work({ view, shopId, address, session, form: formOf(req) }, req);
      };
      const page = await answer().catch((error: unknown) => {
        const known = steps.failure(view, error);
        if (known) return known;
        o.logger.error({ err: error }, 'page of a shopper failed');
        const { text } = words;
        return notePage(view, { title: text('errorTitle'), text: text('error'), status: 500 });
      });
      sendPage(res, { ...page, cookies: [...page.cookies, ...cookies(base)] });
    };

  const { shopperPages: limit } = o.limits;
  const body = express.urlencoded({
    extended: false,
    limit: FORM_LIMIT,
    parameterLimit: MAX_FIELDS,
  });
  const form = [limit, receiveForm, body];
  const tokenOf = (req: Request) => String(req.params.token);
  const statusPath = (req: Request) => `s/${encodeURIComponent(tokenOf(req))}`;
  const path = `${SHOPPER_PATH}/:handle`;
  endpoint(router, path, {
    GET: [limit, pageHandler(async ({ view }) => findPage(view))],
    POST: [...form, pageHandler((visit) => steps.find(visit))],
  });
  endpoint(router, `${path}/return`, {
    GET: [
      limit,
      pageHandler(
        (visit) => steps.choose(visit),
        () => 'return',
      ),
    ],
    POST: [
      ...form,
      pageHandler(
        (visit) => steps.submit(visit),
        () => 'return',
      ),
    ],
  });
  const withdrawals = { returns, limits: o.lookUps, mails: o.mails };
  const withdrawPath = () => WITHDRAW;
  endpoint(router, `${path}/${WITHDRAW}`, {
    GET: [limit, pageHandler(async (visit) => showWithdraw(visit), withdrawPath)],
    POST: [...form, pageHandler((visit) => withdraw(withdrawals, visit), withdrawPath)],
  });
  endpoint(router, `${path}/s/:token`, {
    GET: [limit, pageHandler((visit, req) => steps.status(visit, tokenOf(req)), statusPath)],
  });
  endpoint(router, `${path}/s/:token/cancel`, {
    POST: [...form, pageHandler((visit, req) => steps.cancel(visit, tokenOf(req)), statusPath)],
  });
  return router;
}

/** The shop with a handle, and its look; undefined without one. */
async function shopOf({ services, pool }: ShopperOptions, handle: string) {
  const found = await services.returns
    .findShopperPage({ actor: SHOPPER, handle })
    .catch((error: unknown): FindShopperPageResponse | undefined => {
      if (ConnectError.from(error).code === Code.NotFound) return undefined;
      throw error;
    });
  if (!found) return undefined;
  const { shopId, page } = found;
  const { name } = await requireShop(pool, shopId);
  return { shopId, name, accent: page?.accent ?? '', supportEmail: page?.supportEmail ?? '' };
}

/** The language of a request. One that was chosen with a link is kept in a cookie. */
function languageFor(req: Request): {
  readonly words: Words;
  cookies(path: string): readonly string[];
} {
  const chosen = LANGUAGES.find((one) => one === queryOf(req).get('lang'));
  const asked = chosen ?? cookieOf(req, LANGUAGE_COOKIE);
  const words = wordsIn(languageOf(asked, req.headers['accept-language']));
  const cookie = (path: string) =>
    `${LANGUAGE_COOKIE}=${chosen}; Path=${path}; Max-Age=${LANGUAGE_COOKIE_S}; HttpOnly; SameSite=Lax`;
  return { words, cookies: (path) => (chosen ? [cookie(path)] : []) };
}

/** The fields of a form. A field that it has twice is left out. */
function formOf({ body }: Request): Form {
  const fields = Object.entries(body ?? {});
  return Object.fromEntries(
    fields.flatMap(([name, value]) => (typeof value === 'string' ? [[name, value]] : [])),
  );
}
