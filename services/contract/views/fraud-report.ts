import { timestampDate } from '@bufbuild/protobuf/wkt';
import type { Report } from '../../../proto/gen/rms/fraud/v1/fraud_pb.ts';
import type { FraudReportObject } from '../resources/fraud-report.ts';
import { isoTime } from '../time.ts';
import { FRAUD_CATEGORIES } from '../vocabulary.ts';

/**
 * A fraud report in responses (interface: Fraud report). Throws for a report without a time, which should not exist.
 */
export function fraudReportView(report: Report): FraudReportObject {
  if (!report.createdAt) throw new Error(`fraud report ${report.id} has no time`);
  return {
    id: Number(report.id),
    return_id: Number(report.returnId),
    category: FRAUD_CATEGORIES.find((category) => category === report.category) ?? null,
    comment: report.comment ?? null,
    created_at: isoTime(timestampDate(report.createdAt)),
  };
}
