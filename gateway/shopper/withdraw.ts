import { randomBytes } from 'node:crypto';
import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt';
import { EMAIL_MAX, SHORT_TEXT_MAX } from '../../services/contract/limits.ts';
import { sent } from '../actions/context.ts';
import type { ShopperMails } from '../mail/shopper-mails.ts';
import type { PageResponse } from '../oauth/pages/response.ts';
import type { Services } from '../services.ts';
import { STEP } from './choose-page.ts';
import type { LookUpLimits } from './limits.ts';
import { SHOPPER } from './shopper-actor.ts';
import { busyPage, KEY, KEY_BYTES, type Visit } from './steps.ts';
import {
  confirmPage,
  type Declaration,
  WITHDRAW,
  withdrawnPage,
  withdrawPage,
} from './withdraw-pages.ts';

export interface WithdrawDeps {
  readonly returns: Services['returns'];
  readonly limits: LookUpLimits;
  /** Undefined when mails are off. */
  readonly mails: ShopperMails | undefined;
}

const EMAIL = /^[^\s@]+@[^\s@]+$/;

/** The first page, with what is known of the shopper's order. */
export function showWithdraw({ view, session }: Visit): PageResponse {
  return withdrawPage(view, { orderName: session?.orderName ?? '', name: '', email: '' });
}

/**
 * The steps of a withdrawal. Whoever confirms one has withdrawn: nothing is looked up, and nothing is refused that has a
 * name, an order and an address.
 */
export async function withdraw(deps: WithdrawDeps, visit: Visit): Promise<PageResponse> {
  const { view, form } = visit;
  const { text } = view.words;
  const stated = {
    orderName: fieldOf(form[WITHDRAW.order], SHORT_TEXT_MAX),
    name: fieldOf(form[WITHDRAW.name], SHORT_TEXT_MAX),
    email: fieldOf(form[WITHDRAW.email], EMAIL_MAX),
  };
  const isEmpty = Object.values(stated).some((value) => value === '');
  if (isEmpty) return withdrawPage(view, { ...stated, problem: text('withdrawEmpty') });
  if (!EMAIL.test(stated.email)) {
    return withdrawPage(view, { ...stated, problem: text('withdrawBadEmail') });
  }
  if (form.step === STEP.change) return withdrawPage(view, stated);
  const key = form[WITHDRAW.key] ?? '';
  if (form.step === STEP.send && KEY.test(key)) return confirm(deps, visit, { ...stated, key });
  return confirmPage(view, { ...stated, key: randomBytes(KEY_BYTES).toString('base64url') });
}

async function confirm(
  deps: WithdrawDeps,
  visit: Visit,
  o: Declaration & { readonly key: string },
): Promise<PageResponse> {
  const { view, shopId, address } = visit;
  const admission = await deps.limits.declared(address);
  if (!admission.admitted) return busyPage(view);
  const { language } = view.words;
  const request = { ...o, idempotencyKey: `shopper:${o.key}` };
  // The mail is stored first: it states the time of the receipt, and whoever sends it makes sure that the withdrawal is
  // recorded. So a process that dies here loses nothing.
  const stored = await deps.mails?.addWithdrawal({ shopId, ...request, language });
  const declaredAt = stored?.declaredAt ?? new Date();
  const recorded = deps.returns.declareWithdrawal({
    shopId,
    actor: SHOPPER,
    idempotencyKey: request.idempotencyKey,
    orderName: o.orderName,
    name: o.name,
    email: o.email,
    declaredAt: timestampFromDate(declaredAt),
  });
  const made = await recorded.catch((error: unknown) => {
    if (stored) return undefined;
    throw error;
  });
  if (made) await stored?.due();
  const at = made ? timestampDate(sent(made.withdrawal?.declaredAt, 'time')) : declaredAt;
  return withdrawnPage(view, { ...o, declaredAt: at, isMailed: stored !== undefined });
}

/** A field without line breaks, control characters and what is too long. */
function fieldOf(value: string | undefined, max: number): string {
  const line = (value ?? '')
    .normalize('NFC')
    .replace(/[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]+/gu, ' ')
    .trim();
  return [...line].slice(0, max).join('');
}
