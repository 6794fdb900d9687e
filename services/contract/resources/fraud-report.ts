import { z } from 'zod';
import { blank } from '../../platform/values/text.ts';
import { FRAUD_COMMENT_MAX } from '../limits.ts';
import { FRAUD_CATEGORIES } from '../vocabulary.ts';
import { choice, text } from './fields.ts';
import { id, means, nullableText, requiredTime } from './response-fields.ts';

/** Body of create fraud report. A blank comment counts as absent. The category `other` requires a comment. */
export const fraudReportBody = z
  .object({
    category: choice(FRAUD_CATEGORIES)
      .nullish()
      .meta({ description: 'Kind of fraud; null or absent when it is not known' }),
    comment: text({ max: FRAUD_COMMENT_MAX })
      .nullish()
      .meta({ description: 'What happened, for people. Required when the category is `other`' }),
  })
  .superRefine(({ category, comment }, context) => {
    if (category === 'other' && blank(comment ?? '')) {
      const message = 'is required when category is other';
      context.addIssue({ code: 'custom', path: ['comment'], message });
    }
  })
  .meta({ id: 'FraudReportBody' });
export type FraudReportBody = z.infer<typeof fraudReportBody>;

/** A fraud report in responses (interface: Fraud report). */
export const fraudReport = z
  .object({
    id: means(id(), 'Identifier of the report'),
    return_id: means(id(), 'The return that the report is about'),
    category: means(z.enum(FRAUD_CATEGORIES).nullable(), 'Kind of fraud; null when none was given'),
    comment: means(nullableText(), 'What happened, as it was sent; null without a comment'),
    created_at: means(requiredTime(), 'When the report was made'),
  })
  .meta({ id: 'FraudReport' });
export type FraudReportObject = z.infer<typeof fraudReport>;
