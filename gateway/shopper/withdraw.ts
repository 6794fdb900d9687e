import { randomBytes } from 'node:crypto';
import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt';
import { EMAIL_MAX, SHORT_TEXT_MAX } from '../../services/contract/limits.ts';
import { EMAIL_FORM } from '../../services/platform/values/text.ts';
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

/** The first page, with what is known of the shopper's order. */
export function showWithdraw({ view, session }: Visit): PageResponse {
  return withdrawPage(view, { orderName: session?.orderName ?? '', name: '', email: '' });
}

/**
 * The steps of a withdrawal. A shopper who confirms has withdrawn: nothing is looked up, and nothing is rejected that has
 * a name, an order and an address.
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
  if (!EMAIL_FORM.test(stated.email)) {
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
  // The mail is stored first, with the time of the receipt. The process that sends it records the withdrawal before. So a
  // process that dies here loses nothing.
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
  // Without this the mail is due in two minutes.
  if (made) await stored?.due().catch(() => undefined);
  const at = made ? timestampDate(sent(made.withdrawal?.declaredAt, 'time')) : declaredAt;
  return withdrawnPage(view, { ...o, declaredAt: at, isMailed: stored !== undefined });
}

/** A field without line breaks, control characters, changes of the direction of text, and what is too long. */
function fieldOf(value: string | undefined, max: number): string {
  const line = (value ?? '')
    .normalize('NFC')
    .replace(/[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Bidi_Control}]+/gu, ' ')
    .trim();
  return [...line].slice(0, max).join('');
}
