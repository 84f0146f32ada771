/// <reference types="vitest/config" />
import { defineConfig } from "vite";

// `npm run dev` shows the page with the API of a running daemon: `ROTA_URL` is what `rota status` calls http.
const daemon = process.env.ROTA_URL ?? "http://127.0.0.1:4700";
const toDaemon = { target: daemon, changeOrigin: true };

export default defineConfig({
  base: "./",
  build: {
    target: "es2022",
    // The page's policy forbids inline anything, so nothing may be turned into a data URL.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 400,
  },
  server: { proxy: { "/api": toDaemon, "/events": toDaemon } },
  test: { include: ["unit/**/*.test.ts"], environment: "node" },
});
