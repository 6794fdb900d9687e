import type { MessageInitShape } from '@bufbuild/protobuf';
import type { Report } from '../../../proto/gen/rms/fraud/v1/fraud_pb.ts';
import type {
  FraudReportSchema,
  TimelineEntrySchema,
} from '../../../proto/gen/rms/portal/v1/returns_pb.ts';
import type { TimelineEntry } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { personView } from './values.ts';

export function timelineEntryView(
  entry: TimelineEntry,
): MessageInitShape<typeof TimelineEntrySchema> {
  const { id, occurredAt, kind, text, author, facts, actor } = entry;
  const person = personView(actor);
  // An imported entry has the name of a person who never acted in this service. That name wins.
  const by = person && { ...person, name: author || person.name };
  return {
    id: String(id),
    kind,
    text,
    facts,
    ...(occurredAt && { occurredAt }),
    ...(by && { by }),
  };
}

export function fraudReportView(report: Report): MessageInitShape<typeof FraudReportSchema> {
  const { id, category = '', comment = '', createdAt } = report;
  const reportedBy = personView(report.reportedBy);
  return {
    id: String(id),
    category,
    comment,
    ...(createdAt && { createdAt }),
    ...(reportedBy && { reportedBy }),
  };
}
