import { create } from '@bufbuild/protobuf';
import { describe, expect, test } from '@jest/globals';
import {
  AutomaticProcessing_Moment as Moment,
  type Policy,
  PolicySchema,
  RefundBasis,
  ReturnWindow_Start as Start,
  WithdrawalHandling,
} from '../../../../proto/gen/rms/returns/v1/policy_pb.ts';
import { Outcome, ReturnMethod } from '../../../../proto/gen/rms/returns/v1/return_pb.ts';
import { changedParts, type Draft, draftOf, merged, policyOf, problemIn } from './draft.ts';
import { PART_TITLES, sentencesOf } from './sentences.ts';

/** A policy with each part. */
const FULL: Policy = create(PolicySchema, {
  window: { days: 30, from: Start.FULFILLED },
  finalSale: { productIds: [7n, 8n], skus: ['SALE-*'], tags: ['final'] },
  exceptions: [
    {
      items: { skus: ['SHOE-*'] },
      window: { days: 14, from: Start.DELIVERED },
      outcomes: [Outcome.EXCHANGE],
    },
    { items: { tags: ['gift'] }, outcomes: [] },
  ],
  countries: ['DE', 'FR'],
  outcomes: [Outcome.REFUND, Outcome.CREDIT],
  returnMethods: [ReturnMethod.MAIL],
  reasons: [
    { code: 'small', label: { en: 'Too small', de: 'Zu klein' }, asksComment: true },
    { code: 'broken', parent: 'fault', label: { en: 'Broken' }, waivesFee: true },
  ],
  fees: [
    { returnMethod: ReturnMethod.MAIL, fee: { case: 'amount', value: '4.95' } },
    { outcome: Outcome.REFUND, fee: { case: 'percentage', value: '10' } },
  ],
  review: {
    valueAbove: '200',
    reasons: ['broken'],
    returnsAbove: 3,
    returnsDays: 30,
    fraudReport: true,
    missing: true,
  },
  process: { moment: Moment.ARRIVED, upTo: '100' },
  refundBasis: RefundBasis.ARRIVED,
  withdrawals: WithdrawalHandling.RETURN,
});

const NONE = draftOf(undefined);
const full = draftOf(FULL);
const says = (draft: Draft) =>
  (Object.keys(PART_TITLES) as (keyof typeof PART_TITLES)[]).flatMap((part) =>
    sentencesOf(part, draft, 'GBP'),
  );

describe('a draft of a policy', () => {
  test('has every part as it was read', () => {
    expect(create(PolicySchema, policyOf(full))).toEqual(FULL);
  });

  test('of no policy allows everything', () => {
    expect(policyOf(NONE)).toMatchObject({ exceptions: [], countries: [], reasons: [], fees: [] });
    expect(policyOf(NONE)).not.toHaveProperty('window');
    expect(changedParts(NONE, draftOf(create(PolicySchema, policyOf(NONE))))).toEqual([]);
  });

  test('is the same however its lists are written', () => {
    const finalSale = { ...full.finalSale, productIds: ' 8\n\n7 \n8' };
    const review = { ...full.review, valueAbove: '200.00' };
    const other = { ...full, finalSale, review, countries: 'fr  de,' };
    expect(changedParts(other, full)).toEqual([]);
  });

  test('says what is wrong with its goods', () => {
    expect(problemIn(full)).toBeUndefined();
    const wrong = { ...full.finalSale, productIds: 'mug' };
    expect(problemIn({ ...full, finalSale: wrong })).toEqual([
      'finalSale',
      'mug is no number of a product.',
    ]);
  });
});

describe('two changes of a policy at once', () => {
  const mine = { ...full, countries: 'DE' };

  test('are both kept when they are of different parts', () => {
    const theirs = { ...full, outcomes: [Outcome.CREDIT] };
    const { draft, both } = merged({ base: full, mine, theirs });
    expect([draft.countries, draft.outcomes, both]).toEqual(['DE', [Outcome.CREDIT], []]);
  });

  test('of the same part are named, unless they are equal', () => {
    const of = (countries: string) =>
      merged({ base: full, mine, theirs: { ...full, countries } }).both;
    expect([of('ES'), of('DE')]).toEqual([['countries'], []]);
  });
});

describe('the sentences of a policy', () => {
  test('say every rule', () => {
    expect(says(full)).toEqual([
      'Goods may come back within 30 days after the shipment.',
      'These never come back: products 7, 8; SKUs SALE-*; tags final.',
      'SKUs SHOE-*: within 14 days after the delivery, exchange only.',
      'Tags gift: as all goods.',
      'Only orders that were shipped to these may come back: Germany, France.',
      'Shoppers may choose refund or store credit.',
      'Goods may come back in one of these ways: by mail.',
      'Shoppers choose one of 2 reasons: Too small, Broken.',
      'They must comment on: Too small.',
      'These cost no fee: Broken.',
      'By mail: 4.95 GBP.',
      'Refund: 10 % of the goods.',
      'The first that fits counts.',
      'A fee is never above what the shopper gets.',
      'A return is put into review if its goods are worth more than 200 GBP, or if its reason is Broken, or if the shopper has more than 3 returns in 30 days, or if the shopper has an open fraud report, or if goods are missing.',
      'A return is processed when all announced units have arrived.',
      'A person processes those that pay more than 100 GBP.',
      'Returns in review always wait for a person.',
      'We pay only the units that arrived undamaged, and those that a person accepted.',
      'A withdrawal becomes a return at once, if its order and e-mail address match.',
    ]);
  });

  test('say that everything is allowed without a policy', () => {
    expect(says(NONE)).toEqual([
      'Goods may come back without a time limit.',
      'No goods are excluded.',
      'No goods have rules of their own.',
      'Orders from every country may come back.',
      'Shoppers may choose every outcome.',
      'Goods may come back in every way.',
      'Shoppers say in their own words why they return.',
      'Returns cost the shopper nothing.',
      'No return is put into review by itself.',
      'A person processes each return.',
      'We pay the units that the shopper announced.',
      'A person decides what becomes of a withdrawal.',
    ]);
  });
});
