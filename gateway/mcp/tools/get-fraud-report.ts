import { z } from 'zod';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import type { Report } from '../../../proto/gen/rms/fraud/v1/fraud_pb.ts';
import { reasonOf } from '../../../services/platform/errors.ts';
import { getFraudReport as get } from '../../actions/fraud.ts';
import { findReturn } from '../../actions/returns.ts';
import { returnId } from '../fields.ts';
import { defineTool, readOnlyHints, type ToolContext } from '../tool.ts';
import { reportOutput, reportOutputView } from '../views/fraud-report.ts';

export const getFraudReport = defineTool({
  name: 'get_fraud_report',
  title: 'Get fraud report',
  description: 'Use this when you need to know whether and why a return was reported as fraud.',
  hints: readOnlyHints("a return's fraud report"),
  input: z.strictObject({ return_id: returnId }),
  output: reportOutput,
  run: async (context, { return_id }) =>
    reportOutputView(await reportOf(context, BigInt(return_id))),
});

/**
 * Reads the report. If there is none, checks whether the return exists, because the next step of the assistant depends
 * on it.
 */
async function reportOf(context: ToolContext, id: bigint): Promise<Report> {
  try {
    return await get(context, id);
  } catch (error) {
    if (reasonOf(error) !== ErrorReason.FRAUD_REPORT_NOT_FOUND) throw error;
    await findReturn(context, { case: 'returnId', value: id });
    throw error;
  }
}
