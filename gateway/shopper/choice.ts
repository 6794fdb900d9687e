import type {
  Eligibility,
  EligibleLine,
  PolicyReason,
} from '../../proto/gen/rms/returns/v1/policy_pb.ts';
import {
  Outcome,
  OutcomeSchema,
  ReturnMethod,
  ReturnMethodSchema,
} from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { SHOPPER_COMMENT_MAX, SHORT_TEXT_MAX } from '../../services/contract/limits.ts';
import { enumText } from '../../services/platform/values/enum-text.ts';
import type { Words } from './words.ts';

/** What a shopper may choose for an order. */
export interface Offer {
  readonly eligibility: Eligibility;
  /** The reasons of the policy; empty: no reason is asked for. */
  readonly reasons: readonly PolicyReason[];
}

export interface ChosenLine {
  readonly line: EligibleLine;
  /** 0: it stays with the shopper. */
  readonly units: number;
  readonly reason: string;
  readonly comment: string;
}

/** What a shopper chose. */
export interface Choice {
  readonly lines: readonly ChosenLine[];
  readonly outcome: Outcome;
  readonly method: ReturnMethod;
}

const OUTCOMES = enumText(OutcomeSchema);
const METHODS = enumText(ReturnMethodSchema);

/** The outcomes that this page can explain, of those that are offered. */
export function outcomesOf({ outcomes }: Eligibility): Outcome[] {
  const known = [Outcome.REFUND, Outcome.CREDIT, Outcome.EXCHANGE];
  return known.filter((one) => outcomes.includes(one));
}

/**
 * The methods that shoppers may choose, of those that are offered. Goods that stay with the shopper are decided by people
 * of the shop: nobody gives away goods by a click.
 */
export function methodsOf({ returnMethods }: Eligibility): ReturnMethod[] {
  return returnMethods.filter((one) => one !== ReturnMethod.KEEP_ITEM);
}

export const outcomeWord = (outcome: Outcome): string => OUTCOMES.toText(outcome);
export const methodWord = (method: ReturnMethod): string => METHODS.toText(method);

/** The label of a reason in a language, or else in English, or else in the first that there is. */
export function reasonLabel({ code, label }: PolicyReason, { language }: Words): string {
  return label[language] ?? label.en ?? Object.values(label)[0] ?? code;
}

/** Reads the form. Fields that do not fit are as if they were absent. */
export function choiceOf(form: Readonly<Record<string, string>>, offer: Offer): Choice {
  const { eligibility, reasons } = offer;
  const codes = new Set(reasons.map(({ code }) => code));
  const lines = eligibility.lines.map((line): ChosenLine => {
    const id = line.providerLineItemId;
    const asked = Number(form[`units_${id}`] ?? 0);
    const units = Number.isInteger(asked) && asked > 0 ? asked : 0;
    const reason = form[`reason_${id}`] ?? '';
    const comment = [...(form[`comment_${id}`] ?? '').trim()]
      .slice(0, SHOPPER_COMMENT_MAX)
      .join('');
    return {
      line,
      // The service says how many may come back. A second click on the same button must state the same.
      units: Math.min(units, line.orderedQuantity),
      reason: codes.has(reason) ? reason : '',
      comment,
    };
  });
  const outcomes = outcomesOf(eligibility);
  const methods = methodsOf(eligibility);
  return {
    lines,
    outcome:
      outcomes.find((one) => outcomeWord(one) === form.outcome) ??
      outcomes[0] ??
      Outcome.UNSPECIFIED,
    method:
      methods.find((one) => methodWord(one) === form.method) ??
      methods[0] ??
      ReturnMethod.UNSPECIFIED,
  };
}

/** What is missing in a choice, as a sentence; undefined when it is complete. */
export function missingIn({ lines }: Choice, { reasons }: Offer, words: Words): string | undefined {
  const chosen = lines.filter(({ units }) => units > 0);
  if (chosen.length === 0) return words.text('chooseUnits');
  for (const { line, reason, comment } of chosen) {
    const title = titleOf(line);
    if (reasons.length > 0 && reason === '') return words.text('reasonMissing', { title });
    const asks = reasons.find(({ code }) => code === reason)?.asksComment;
    if (asks && comment === '') return words.text('commentMissing', { title });
  }
  return undefined;
}

/** The title of an order line with its variant. */
export function titleOf({ title, variantTitle, sku }: EligibleLine): string {
  const whole = [title, variantTitle].filter((part) => part !== '').join(', ') || sku;
  return [...whole].slice(0, SHORT_TEXT_MAX).join('');
}
