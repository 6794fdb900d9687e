import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { PolicyUse, type Return, ReturnState } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { isOutage } from '../../services/platform/postgres/outage.ts';
import { deadline } from '../../services/platform/process/deadlines.ts';
import { isUnavailable, reasonOf } from '../../services/platform/values/errors.ts';
import { normalForm } from '../../services/platform/values/text.ts';
import { sent } from '../actions/context.ts';
import { type PageResponse, redirect } from '../oauth/pages/response.ts';
import type { Services } from '../services.ts';
import { type Choice, choiceOf, missingIn, type Offer } from './choice.ts';
import { checkPage, choosePage, STEP, unchosen } from './choose-page.ts';
import { FIND, findPage } from './find-page.ts';
import { notePage, type View } from './frame.ts';
import type { LookUpLimits } from './limits.ts';
import type { ShopperSession, ShopperSessions } from './session.ts';
import { SHOPPER } from './shopper-actor.ts';
import { statusPage } from './status-page.ts';

/** Deadline of a call that may wait 8 s for the shop's commerce platform. Milliseconds. */
const timeoutMs = deadline(12_000);

export type Form = Readonly<Record<string, string>>;

/** A request for a page of a shop. */
export interface Visit {
  readonly view: View;
  readonly shopId: bigint;
  readonly address: string;
  readonly session: ShopperSession | undefined;
  readonly form: Form;
}

interface StepDeps {
  readonly returns: Services['returns'];
  readonly sessions: ShopperSessions;
  readonly limits: LookUpLimits;
}

/** What the pages do. Each step returns the page that follows. */
export interface ShopperSteps {
  find(visit: Visit): Promise<PageResponse>;
  choose(visit: Visit): Promise<PageResponse>;
  /** The second form: checks a choice, and sends it when the shopper has seen what comes back. */
  submit(visit: Visit): Promise<PageResponse>;
  status(visit: Visit, token: string): Promise<PageResponse>;
  cancel(visit: Visit, token: string): Promise<PageResponse>;
  /** The page about an error of a step; undefined for an error that is a bug. */
  failure(view: View, error: unknown): PageResponse | undefined;
}

export function createShopperSteps(deps: StepDeps): ShopperSteps {
  return {
    find: (visit) => find(deps, visit),
    async choose(visit) {
      const { session } = visit;
      if (!session) return redirect(visit.view.base);
      const offer = await offerOf(deps, visit, session);
      const choice = choiceOf(unchosen(offer.eligibility.lines), offer);
      return choosePage(visit.view, { offer, choice });
    },
    submit: (visit) => submit(deps, visit),
    async status(visit, token) {
      const of = await returnOf(deps, visit, token);
      return statusPage(visit.view, { of, mayCancel: await mayCancel(deps, visit, of) });
    },
    cancel: (visit, token) => cancel(deps, visit, token),
    failure,
  };
}

async function find(deps: StepDeps, visit: Visit): Promise<PageResponse> {
  const begun = performance.now();
  const { view, shopId, form } = visit;
  const { words } = view;
  const order = normalForm(form[FIND.order] ?? '');
  const proof = normalForm(form[FIND.proof] ?? '');
  const typed = { order, proof };
  if (order === '' || proof === '') {
    return findPage(view, { ...typed, problem: words.text('findEmpty'), status: 422 });
  }
  const admission = await deps.limits.take({ address: visit.address, shopId, order });
  if (!admission.admitted) return busyPage(view);
  const found = await deps.returns
    .getEligibility(
      { ...callerOf(visit), order: { case: 'orderName', value: order }, shopper: proof },
      { timeoutMs },
    )
    .catch((error: unknown) => {
      if (isNotFound(error)) return undefined;
      throw error;
    });
  if (!found) {
    await deps.limits.failed(shopId, order);
    await alike(begun);
    return findPage(view, { ...typed, problem: words.text('findFailed'), status: 404 });
  }
  const { providerOrderId, orderName } = sent(found.eligibility, 'eligibility');
  const session = { shopId, providerOrderId, orderName };
  return redirect(`${view.base}/return`, [deps.sessions.start(session, view.base)]);
}

/** A response to a failed look-up takes a whole number of these. Milliseconds. */
const ALIKE_MS = 500;

/**
 * Waits, so that the time of a response does not tell an order that does not exist from one with another e-mail address.
 */
async function alike(begun: number): Promise<void> {
  const passed = performance.now() - begun;
  await sleep(Math.ceil(passed / ALIKE_MS) * ALIKE_MS - passed);
}

async function submit(deps: StepDeps, visit: Visit): Promise<PageResponse> {
  const { view, session, form } = visit;
  if (!session) return endedPage(view);
  const offer = await offerOf(deps, visit, session);
  const choice = choiceOf(form, offer);
  const step = form.step;
  if (step === STEP.change) return choosePage(view, { offer, choice });
  const key = form.key ?? '';
  if (step === STEP.send && KEY.test(key))
    return send(deps, visit, { session, offer, choice, key });
  const problem = missingIn(choice, offer, view.words);
  if (problem !== undefined) return choosePage(view, { offer, choice, problem, status: 422 });
  const tried = randomBytes(KEY_BYTES).toString('base64url');
  const made = await submitted(deps, visit, { session, choice, key: tried, validateOnly: true });
  if (!made) return changedPage(view, { offer, choice });
  return checkPage(view, { choice, made, key: tried });
}

/** The key of a form, which names what it sends. Bytes. */
export const KEY_BYTES = 24;
export const KEY = /^[A-Za-z0-9_-]{32}$/;

async function send(
  deps: StepDeps,
  visit: Visit,
  o: {
    readonly session: ShopperSession;
    readonly offer: Offer;
    readonly choice: Choice;
    readonly key: string;
  },
): Promise<PageResponse> {
  const made = await submitted(deps, visit, { ...o, validateOnly: false });
  if (!made) return changedPage(visit.view, o);
  // A return of before has none any more when its shopper's data was removed, or the shop gave up its page.
  if (!URL.canParse(made.statusPageUrl)) return redirect(visit.view.base);
  return redirect(new URL(made.statusPageUrl).pathname);
}

/** The return of a choice; undefined when the shop does not take it back any more. */
async function submitted(
  { returns }: StepDeps,
  visit: Visit,
  o: {
    readonly session: ShopperSession;
    readonly choice: Choice;
    readonly key: string;
    /** Whether nothing is recorded. */
    readonly validateOnly: boolean;
  },
): Promise<Return | undefined> {
  const { choice, validateOnly } = o;
  const { providerOrderId } = o.session;
  const request = {
    ...callerOf(visit),
    // A dry run has a key of its own, because it has other content.
    idempotencyKey: `shopper:${providerOrderId}:${o.key}${validateOnly ? ':tried' : ''}`,
    validateOnly,
    findOrder: true,
    policy: PolicyUse.APPLY,
    order: { providerOrderId },
    outcome: choice.outcome,
    returnMethod: choice.method,
    lines: choice.lines
      .filter(({ units }) => units > 0)
      .map(({ line, units: quantity, reason, comment }) => ({
        providerLineItemId: line.providerLineItemId,
        ...{ quantity, reason, comment },
      })),
  };
  try {
    return sent((await returns.submitReturn(request, { timeoutMs })).return, 'return');
  } catch (error) {
    if (REFUSED.has(reasonOf(error) ?? ErrorReason.UNSPECIFIED)) return undefined;
    throw error;
  }
}

/** Why a choice that fitted the form is refused: the order or the policy has changed since the page was made. */
const REFUSED: ReadonlySet<ErrorReason> = new Set([
  ErrorReason.NOT_ELIGIBLE,
  ErrorReason.INVALID_FIELD,
  ErrorReason.STATE_FORBIDS,
  ErrorReason.IDEMPOTENCY_CONFLICT,
]);

function changedPage(view: View, o: { readonly offer: Offer; readonly choice: Choice }) {
  return choosePage(view, { ...o, problem: view.words.text('notAny'), status: 409 });
}

async function offerOf(
  { returns }: StepDeps,
  visit: Visit,
  { providerOrderId: value }: ShopperSession,
): Promise<Offer> {
  const caller = callerOf(visit);
  const asked = { ...caller, order: { case: 'providerOrderId', value } as const };
  const [{ eligibility }, { policy }] = await Promise.all([
    returns.getEligibility(asked, { timeoutMs }),
    returns.getPolicy(caller),
  ]);
  return { eligibility: sent(eligibility, 'eligibility'), reasons: policy?.reasons ?? [] };
}

async function returnOf({ returns }: StepDeps, visit: Visit, statusToken: string): Promise<Return> {
  const found = await returns.findShopperReturn({ ...callerOf(visit), statusToken });
  return sent(found.return, 'return');
}

/** A return can be cancelled while it waits and its parcel has not left. */
async function mayCancel({ returns }: StepDeps, visit: Visit, of: Return): Promise<boolean> {
  const waits = of.state === ReturnState.OPEN || of.state === ReturnState.REVIEW;
  if (!waits || of.lineItems.some(({ arrivedQuantity }) => arrivedQuantity > 0)) return false;
  const { cancelRefusal } = await returns.checkReturn({ ...callerOf(visit), returnId: of.id });
  return cancelRefusal === '';
}

async function cancel(deps: StepDeps, visit: Visit, token: string): Promise<PageResponse> {
  const { view } = visit;
  const of = await returnOf(deps, visit, token);
  if (await mayCancel(deps, visit, of)) {
    await deps.returns.cancelReturn({ ...callerOf(visit), returnId: of.id });
    return redirect(view.here);
  }
  if (of.state === ReturnState.CANCELLED) return redirect(view.here);
  const problem = view.words.text('cancelFailed');
  return { ...statusPage(view, { of, mayCancel: false, problem }), status: 409 };
}

function callerOf({ shopId }: Visit) {
  return { shopId, actor: SHOPPER };
}

function isNotFound(error: unknown): boolean {
  const reason = reasonOf(error);
  return reason === ErrorReason.ORDER_NOT_FOUND || reason === ErrorReason.INVALID_FIELD;
}

export function busyPage(view: View): PageResponse {
  const { text } = view.words;
  return notePage(view, { title: text('busyTitle'), text: text('busy'), status: 429 });
}

function endedPage(view: View): PageResponse {
  const { text } = view.words;
  return notePage(view, { title: text('endedTitle'), text: text('ended'), status: 403 });
}

/** The page of an address that leads to nothing. */
export function gonePage(view: View): PageResponse {
  const { text } = view.words;
  return notePage(view, { title: text('goneTitle'), text: text('gone'), status: 404 });
}

function failure(view: View, error: unknown): PageResponse | undefined {
  const { text } = view.words;
  const note = (
    title: 'unavailableTitle' | 'errorTitle',
    name: 'unavailable' | 'noLookUp',
    status: number,
  ) => notePage(view, { title: text(title), text: text(name), status });
  switch (reasonOf(error)) {
    case ErrorReason.ORDER_NOT_FOUND:
    case ErrorReason.RETURN_NOT_FOUND:
      return gonePage(view);
    case ErrorReason.NO_ORDER_LOOKUP:
      return note('unavailableTitle', 'noLookUp', 409);
    case ErrorReason.COMMERCE_FAILED:
      return note('unavailableTitle', 'unavailable', 503);
    default:
      return isUnavailable(error) || isOutage(error)
        ? note('unavailableTitle', 'unavailable', 503)
        : undefined;
  }
}
