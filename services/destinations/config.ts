import { serviceShape } from '../platform/config.ts';

export const destinationsShape = { ...serviceShape };
