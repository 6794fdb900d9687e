import { serviceShape } from '../platform/config.ts';

export const cartsShape = { ...serviceShape };
