import type { MessageInitShape } from '@bufbuild/protobuf';
import { callUnaryMethod, useTransport } from '@connectrpc/connect-query';
import { Button } from '@mantine/core';
import { useState } from 'react';
import {
  type AuditFilterSchema,
  AuditService,
} from '../../../../proto/gen/rms/portal/v1/audit_pb.ts';
import { localDay } from '../../api/dates.ts';
import { notifyDone, notifyFailure } from '../../parts/notify.ts';
import { useSession } from '../../session/session.tsx';
import { count } from '../../words.ts';

/** Puts all entries of the filters into one CSV file. */
export function ExportButton({
  filter,
}: {
  readonly filter: MessageInitShape<typeof AuditFilterSchema>;
}) {
  const { can, shop } = useSession();
  const transport = useTransport();
  const [isPending, setPending] = useState(false);
  const { exportAuditEntries } = AuditService.method;
  if (!can(exportAuditEntries)) return null;

  const run = async () => {
    setPending(true);
    try {
      const parts: string[] = [];
      let cursor = '';
      do {
        const page = await callUnaryMethod(transport, exportAuditEntries, { filter, cursor });
        parts.push(page.csv);
        cursor = page.nextCursor;
      } while (cursor !== '');
      save(`audit-log-${shop.id}-${localDay(new Date())}.csv`, parts);
      const lines = parts.join('').split('\n').length - 2;
      notifyDone(`The file has ${count(Math.max(0, lines), 'line')}.`);
    } catch (error) {
      notifyFailure(error);
    } finally {
      setPending(false);
    }
  };
  return (
    <Button variant="default" loading={isPending} onClick={() => void run()}>
      Export as CSV
    </Button>
  );
}

/** Saves a file from memory, as a download does. */
function save(name: string, parts: readonly string[]): void {
  const url = URL.createObjectURL(new Blob([...parts], { type: 'text/csv;charset=utf-8' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}
