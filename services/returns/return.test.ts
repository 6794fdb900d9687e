import type { DescMessage } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  LineAmountsSchema,
  LineChangeSchema,
  LineInputSchema,
  LineItemSchema,
  ReturnSchema,
  ReturnState,
  SubmitReturnRequestSchema,
} from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { LINE_FIELDS, RETURN_FIELDS } from './fields.ts';
import { LINE_AMOUNTS } from './money/totals.ts';
import { isOpenOrInReview, Return, type StateChange, TRANSITIONS } from './return.ts';

const STATES = [
  ReturnState.OPEN,
  ReturnState.REVIEW,
  ReturnState.CLOSED,
  ReturnState.CANCELLED,
  ReturnState.EXPIRED,
];
const NO_COMMITMENTS = { fulfilment: 'none', instantRefundKept: false } as const;
const REASONS = ['odd'];

const DECISIONS = {
  flag: (of: Return) => of.flag(REASONS),
  unflag: (of: Return) => of.unflag(),
  close: (of: Return) => of.close(),
  cancel: (of: Return) => of.cancel(NO_COMMITMENTS),
  expire: (of: Return) => of.expire(),
  reopen: (of: Return) => of.reopen(),
};
type Decision = keyof typeof DECISIONS;
const NAMES = Object.keys(DECISIONS) as Decision[];

interface Subject {
  readonly id: bigint;
  readonly state: ReturnState;
  readonly flagReasons: string[];
  readonly processing: boolean;
}
const start: Subject = { id: 7n, state: ReturnState.OPEN, flagReasons: [], processing: false };

const forbids = (decide: () => StateChange) =>
  expect(decide).toThrow(
    expect.objectContaining({ message: expect.stringMatching(/^the return/) }),
  );

function allowed(name: Decision, of: Subject): boolean {
  const from: readonly ReturnState[] = TRANSITIONS[name].from;
  return from.includes(of.state);
}

describe('the states of a return', () => {
  test('any sequence of decisions follows the table of transitions', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...NAMES), { maxLength: 20 }), (names) => {
        let current: Subject = start;
        for (const name of names) {
          const decide = () => DECISIONS[name](new Return(current));
          if (!allowed(name, current)) {
            forbids(decide);
            continue;
          }
          const { returnId, state, flagReasons } = decide();
          const inReview = name === 'reopen' && current.flagReasons.length > 0;
          expect(returnId).toBe(current.id);
          expect(state).toBe(TRANSITIONS[inReview ? 'reopenInReview' : name].to);
          current = { ...current, state, flagReasons: [...flagReasons] };
          const mayBeFlagged = state === ReturnState.REVIEW || state === ReturnState.EXPIRED;
          expect(mayBeFlagged || flagReasons.length === 0).toBe(true);
        }
      }),
    );
  });

  test.each(STATES)('state %s is live when it is open or in review', (state) => {
    expect(isOpenOrInReview(state)).toBe(
      state === ReturnState.OPEN || state === ReturnState.REVIEW,
    );
  });

  test('a return that expired in review opens again in review, with its reasons', () => {
    const expired = { ...start, state: ReturnState.EXPIRED, flagReasons: REASONS };
    expect(new Return(expired).reopen()).toEqual({
      returnId: start.id,
      state: ReturnState.REVIEW,
      flagReasons: REASONS,
    });
  });

  test.each(['flag', 'cancel', 'expire'] as const)('%s is rejected while queued', (name) => {
    forbids(() => DECISIONS[name](new Return({ ...start, processing: true })));
  });

  test.each([
    { fulfilment: 'made' },
    { fulfilment: 'unknown' },
    { instantRefundKept: true },
  ] as const)('a return is not cancelled when %o', (more) => {
    expect(() => new Return(start).cancel({ ...NO_COMMITMENTS, ...more })).toThrow();
  });

  test.each(STATES)('only a live return that is not queued is edited: %s', (state) => {
    const edit = (processing: boolean) => () =>
      new Return({ ...start, state, processing }).requireEditable();
    if (isOpenOrInReview(state)) expect(edit(false)).not.toThrow();
    else expect(edit(false)).toThrow();
    expect(edit(true)).toThrow();
  });
});

/** Fields that submissions and details share, and that have checks or columns of their own. */
const WITH_OWN_CODE = new Set([
  'shopId',
  'currency',
  'presentmentCurrency',
  'destinationId',
  'quantity',
]);

const scalarsOf = ({ fields }: DescMessage) =>
  fields.filter(({ fieldKind }) => fieldKind === 'scalar').map(({ localName }) => localName);

test.each([
  ['RETURN_FIELDS', SubmitReturnRequestSchema, ReturnSchema, RETURN_FIELDS],
  ['LINE_FIELDS', LineInputSchema, LineItemSchema, LINE_FIELDS],
] as const)(
  '%s of fields.ts has each field that is submitted and read',
  (_, input, read, table) => {
    const readable = new Set(scalarsOf(read));
    const missing = scalarsOf(input).filter(
      (name) => readable.has(name) && !(name in table.inputs) && !WITH_OWN_CODE.has(name),
    );
    expect(missing).toEqual([]);
  },
);

test.each([LineInputSchema, LineChangeSchema, LineAmountsSchema])(
  '$typeName has each amount of a line item',
  ({ fields }) => {
    const names = new Set(fields.map(({ localName }) => localName));
    expect(LINE_AMOUNTS.filter((name) => !names.has(name))).toEqual([]);
  },
);
