import { z } from 'zod';
import type { Report } from '../../../proto/gen/rms/fraud/v1/fraud_pb.ts';
import { fraudReport } from '../../../services/contract/resources/fraud-report.ts';
import { fraudReportView } from '../../../services/contract/views/fraud-report.ts';
import { textOrNull } from '../../../services/contract/views/values.ts';
import { UNTRUSTED } from '../fields.ts';
import { undescribed } from '../result-schema.ts';

const { comment, ...fields } = fraudReport.shape;

export const reportOutput = z.strictObject({
  report: z.strictObject({
    ...undescribed(fields),
    reported_by: z.string().nullable().describe('Name of the author'),
    untrusted_data: z.strictObject(undescribed({ comment })).describe(UNTRUSTED),
  }),
});

export function reportOutputView(report: Report): z.output<typeof reportOutput> {
  const { comment: text, ...rest } = fraudReportView(report);
  const reported_by = textOrNull(report.reportedBy?.name);
  return { report: { ...rest, reported_by, untrusted_data: { comment: text } } };
}
