import { z } from 'zod';
import { blank } from '../../platform/text.ts';
import { FRAUD_COMMENT_MAX } from '../limits.ts';
import { FRAUD_CATEGORIES } from '../vocabulary.ts';
import { choice, text } from './fields.ts';

/** Body of create fraud report. A blank comment counts as absent; the category `other` needs a comment. */
export const fraudReportBody = z
  .object({
    category: choice(FRAUD_CATEGORIES).nullish(),
    comment: text({ max: FRAUD_COMMENT_MAX })
      .nullish()
      .meta({ description: 'Required when the category is `other`' }),
  })
  .superRefine(({ category, comment }, context) => {
    if (category === 'other' && blank(comment ?? '')) {
      const message = 'is required when category is other';
      context.addIssue({ code: 'custom', path: ['comment'], message });
    }
  })
  .meta({ id: 'FraudReportBody' });
export type FraudReportBody = z.infer<typeof fraudReportBody>;

/** Interface: Fraud report. */
export const fraudReport = z
  .object({
    id: z.int().min(1),
    return_id: z.int().min(1),
    category: z.enum(FRAUD_CATEGORIES).nullable(),
    comment: z.string().nullable(),
    created_at: z.string().meta({ format: 'date-time' }),
  })
  .meta({ id: 'FraudReport' });
export type FraudReportObject = z.infer<typeof fraudReport>;
