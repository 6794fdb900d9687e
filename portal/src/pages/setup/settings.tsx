import { useQuery } from '@connectrpc/connect-query';
import { ReturnsService } from '../../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { lazyPart } from '../../parts/lazy-part.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { Loaded } from '../../parts/states.tsx';

const SettingsForm = lazyPart(async () => (await import('./settings-form.tsx')).SettingsForm, 8);

/** How often the settings are read again, so that the page shows what a colleague changes. Milliseconds. */
const READ_EVERY_MS = 10_000;

export function SettingsPage() {
  const query = useQuery(ReturnsService.method.getSettings, {}, { refetchInterval: READ_EVERY_MS });
  return (
    <>
      <PageHead
        title="Settings"
        about="How your shop handles returns. A change counts for what happens from then on."
      />
      <Loaded query={query}>
        {({ settings }) => settings && <SettingsForm settings={settings} />}
      </Loaded>
    </>
  );
}
