import { Text, useMantineColorScheme } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { SessionService } from '../../../proto/gen/rms/portal/v1/session_pb.ts';
import { useWrite } from '../api/use-write.ts';
import { ActionMenu } from '../parts/action-menu.tsx';
import { SecondLine } from '../parts/cell-lines.tsx';
import { currentZone, localZoneName, setZone } from '../parts/zone.ts';
import { leave } from '../session/leave.ts';
import { useSession } from '../session/session.tsx';
import { roleName } from '../words.ts';

const SCHEMES = [
  ['auto', 'As the system'],
  ['light', 'Light'],
  ['dark', 'Dark'],
] as const;

const ZONES = [
  ['local', `Your zone (${localZoneName()})`],
  ['utc', 'UTC'],
] as const;

/** Who is signed in, the colours, the zone of times, the sessions, and the way out. */
export function AccountMenu() {
  const { user, shop, links } = useSession();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const navigate = useNavigate();
  const signOut = useWrite(SessionService.method.signOut, { onSuccess: () => leave() });
  const name = user.name === '' ? user.email : user.name;
  const docsUrl = links?.docsUrl ?? '';
  return (
    <ActionMenu
      label={name}
      name={`Account of ${name}`}
      head={
        <Text size="sm" px="sm" py="xs" component="div" style={{ overflowWrap: 'anywhere' }}>
          {user.email}
          <SecondLine>
            {roleName(shop.role)} of {shop.name}
          </SecondLine>
        </Text>
      }
      actions={[
        ...SCHEMES.map(([scheme, title], place) => ({
          key: scheme,
          title,
          current: scheme === colorScheme,
          run: () => setColorScheme(scheme),
          ...(place === 0 && { section: 'Colours' }),
        })),
        ...ZONES.map(([zone, title], place) => ({
          key: zone,
          title,
          current: zone === currentZone(),
          run: () => setZone(zone),
          ...(place === 0 && { section: 'Times' }),
        })),
        ...(docsUrl === ''
          ? []
          : [{ key: 'docs', title: 'API documentation', href: docsUrl, section: '' }]),
        {
          key: 'sessions',
          title: 'Your sessions',
          section: '',
          run: () => void navigate({ to: '/sessions' }),
        },
        { key: 'out', title: 'Sign out', run: () => signOut.run({}) },
      ]}
    />
  );
}
