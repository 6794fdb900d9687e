import type { z } from 'zod';
import { blank, printable } from '../../platform/values/text.ts';
import type { OperationId } from '../operation.ts';
import { OPERATIONS } from '../operations.ts';
import { type ArrivalBody, type ExpectedQuery, readExpectedQuery } from '../resources/arrival.ts';
import type { CartBody } from '../resources/cart.ts';
import { type DeliveriesQuery, readDeliveriesQuery } from '../resources/delivery.ts';
import type { DestinationBody } from '../resources/destination.ts';
import { type DetailsQuery, readDetailsQuery } from '../resources/details-query.ts';
import { type EligibilityQuery, readEligibilityQuery } from '../resources/eligibility.ts';
import type { FraudReportBody } from '../resources/fraud-report.ts';
import type { GiftCardBody } from '../resources/gift-card.ts';
import type { AssessBody, GradeBody } from '../resources/inspection.ts';
import type { LabelBody, LabelUpdateBody } from '../resources/label.ts';
import type { ProcessBody } from '../resources/process.ts';
import type { Page, QueryResult } from '../resources/query.ts';
import { type ReturnsListQuery, readReturnsQuery } from '../resources/return-list.ts';
import type { SubmissionBody } from '../resources/submission.ts';
import { type CancelBody, readTimelineQuery } from '../resources/timeline.ts';
import type { RotateSecretBody, WebhookBody, WebhookTestBody } from '../resources/webhook.ts';
import {
  type ReplayBody,
  type ReplaysQuery,
  readReplaysQuery,
} from '../resources/webhook-replay.ts';
import { isObject } from './json-object.ts';

/** The type of the validated body of each operation. An optional field may be null, which means absent. */
export interface Bodies {
  readonly createWebhook: WebhookBody;
  readonly updateWebhook: WebhookBody;
  readonly testWebhook: WebhookTestBody;
  readonly rotateWebhookSecret: RotateSecretBody;
  readonly previewReplay: ReplayBody;
  readonly startReplay: ReplayBody;
  readonly assessDispositions: AssessBody;
  readonly gradeItems: GradeBody;
  readonly updateDestination: DestinationBody;
  readonly submitReturn: SubmissionBody;
  readonly createFraudReport: FraudReportBody;
  readonly recordArrival: ArrivalBody;
  readonly recordLabel: LabelBody;
  readonly updateLabel: LabelUpdateBody;
  readonly recordGiftCard: GiftCardBody;
  readonly processReturn: ProcessBody;
  readonly cancelReturn: CancelBody;
  readonly createCart: CartBody;
}
export type BodyOf<K extends OperationId> = K extends keyof Bodies ? Bodies[K] : undefined;

/** The type of the validated query of each operation. */
export interface Queries {
  readonly listReturns: ReturnsListQuery;
  readonly getReturnDetails: DetailsQuery;
  readonly getEligibility: EligibilityQuery;
  readonly listDeliveries: DeliveriesQuery;
  readonly listReplays: ReplaysQuery;
  readonly getReturnTimeline: Page;
  readonly listExpected: ExpectedQuery;
}
export type QueryOf<K extends OperationId> = K extends keyof Queries ? Queries[K] : undefined;

export interface FieldError {
  readonly field: string;
  readonly message: string;
}

/** The result for an invalid request. `message` is about the first invalid field; `fields` has all of them. */
export interface Invalid {
  readonly ok: false;
  readonly message: string;
  readonly fields: readonly FieldError[];
}

const FIELDS_MAX = 50;
const FIELD_NAME_MAX = 200;

/**
 * Validates a parsed JSON body with the schema of the operation. Requests are the same in all released versions. An
 * absent body counts as `{}` if the operation allows it. Never throws.
 */
export function validateBody<K extends OperationId>(
  operation: K,
  _version: string,
  json: unknown,
): { readonly ok: true; readonly value: BodyOf<K> } | Invalid {
  const body = OPERATIONS.find(({ id }) => id === operation)?.body;
  if (!body) return { ok: true, value: undefined as BodyOf<K> };
  if (json === undefined && body.required)
    return invalid([{ field: 'body', message: 'is required' }]);
  const value = json === undefined ? {} : json;
  if (!isObject(value)) return invalid([{ field: 'body', message: 'must be an object' }]);
  const parsed = body.schema.safeParse(value);
  // The schema in the table of operations parses to the operation's type in `Bodies`.
  if (parsed.success) return { ok: true, value: parsed.data as BodyOf<K> };
  return invalid(
    parsed.error.issues.slice(0, FIELDS_MAX).map(({ path, message }) => ({
      field: fieldName(path),
      message,
    })),
  );
}

/**
 * Validates a query. `notFound` means that no object can have the id in it, such as `return_id=abc`. Then the gateway
 * responds with the 404 of the operation, after all other checks. `message` says which rule the id breaks.
 */
export function validateQuery<K extends OperationId>(
  operation: K,
  _version: string,
  query: URLSearchParams,
): { readonly ok: true; readonly value: QueryOf<K> } | (Invalid & { readonly notFound: boolean }) {
  const read = QUERIES.get(operation);
  if (!read) return { ok: true, value: undefined as QueryOf<K> };
  const result = read(query);
  // The parser in the map returns the operation's type in `Queries`.
  if (result.ok) return { ok: true, value: result.value as QueryOf<K> };
  const { field, rule, notFound = false } = result;
  return { ...invalid([{ field, message: rule }]), notFound };
}

type ReadQuery = (query: URLSearchParams) => QueryResult<Queries[keyof Queries]>;

const QUERIES: ReadonlyMap<OperationId, ReadQuery> = new Map<OperationId, ReadQuery>([
  ['listReturns', readReturnsQuery],
  ['getReturnDetails', readDetailsQuery],
  ['getEligibility', readEligibilityQuery],
  ['listDeliveries', readDeliveriesQuery],
  ['listReplays', readReplaysQuery],
  ['getReturnTimeline', readTimelineQuery],
  ['listExpected', readExpectedQuery],
]);

function invalid(errors: readonly FieldError[]): Invalid {
  const fields = errors.map(({ field, message }) => ({ field, message: `${field} ${message}.` }));
  return { ok: false, message: fields[0]?.message ?? 'The request is not valid.', fields };
}

/**
 * The path of a field, such as `items[0].note`. Long keys are cut, because they come from the request and the response
 * must stay small.
 */
function fieldName(path: z.core.$ZodIssue['path']): string {
  if (path.length === 0) return 'body';
  const name = path.reduce<string>((text, part) => {
    if (typeof part === 'number') return `${text}[${part}]`;
    const key = blank(String(part)) ? JSON.stringify(part) : String(part);
    return text === '' ? key : `${text}.${key}`;
  }, '');
  return printable(name, FIELD_NAME_MAX);
}
