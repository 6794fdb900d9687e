import { z } from 'zod';
import { getFraudReport as get } from '../../actions/fraud.ts';
import { returnId } from '../fields.ts';
import { defineTool, readOnlyHints } from '../tool.ts';
import { reportOutput, reportOutputView } from '../views/fraud-report.ts';

export const getFraudReport = defineTool({
  name: 'get_fraud_report',
  title: 'Get fraud report',
  description: 'Use this when you need to know whether and why a return was reported as fraud.',
  hints: readOnlyHints("a return's fraud report"),
  input: z.strictObject({ return_id: returnId }),
  output: reportOutput,
  run: async (context, { return_id }) => reportOutputView(await get(context, BigInt(return_id))),
});
