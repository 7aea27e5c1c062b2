// The documentation as a site: `bash scripts/site.sh`. Its pages are those of docs/, its sidebar the
// lists of docs/README.md. A link that leads nowhere, or to a heading that is not there, fails the build.
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitepress'

const docs = resolve(dirname(fileURLToPath(import.meta.url)), '..')
const repository = 'https://github.com/voxsaw/voxsaw'

function sidebar() {
  const groups: { text: string; items: { text: string; link: string }[] }[] = []
  for (const line of readFileSync(join(docs, 'README.md'), 'utf8').split('\n')) {
    const heading = line.match(/^\*\*(.+)\*\*$/)
    if (heading) groups.push({ text: heading[1], items: [] })
    const item = line.match(/^- \[(.+?)\]\(([^.)][^)]*)\.md\)/)
    if (item) groups[groups.length - 1].items.push({ text: item[1], link: '/' + item[2].replace(/README$/, '') })
  }
  return groups
}

// external turns a link to a file that is no page into one to the repository. It throws where there is
// no such file.
function external(href: string, page: string) {
  const [path, anchor] = href.split('#')
  if (/^[a-z]+:/.test(href) || path === '') return href
  const file = resolve(docs, dirname(page), path)
  if (!existsSync(file)) throw new Error(`${page}: no file is at ${href}`)
  if (path.endsWith('.md') && !relative(docs, file).startsWith('..')) return href
  const kind = statSync(file).isDirectory() ? 'tree' : 'blob'
  return `${repository}/${kind}/main/${relative(dirname(docs), file)}${anchor ? '#' + anchor : ''}`
}

// checkAnchors throws where a built page links to a heading that is not there.
function checkAnchors(out: string) {
  const pages = readdirSync(out, { recursive: true, encoding: 'utf8' }).filter((p) => p.endsWith('.html'))
  const text = new Map(pages.map((p) => [p, readFileSync(join(out, p), 'utf8')]))
  const wrong: string[] = []
  for (const [page, html] of text) {
    for (const [, path, anchor] of html.matchAll(/href="(?!https?:)([^"#]*)#([^"]+)"/g)) {
      const target = path === '' ? page : path.replace(/^\//, '').replace(/\/$|^$/, '/index.html').replace(/^\//, '')
      const ids = text.get(target) ?? text.get(join(dirname(page), path))
      const id = decodeURIComponent(anchor)
      if (!ids?.includes(`id="${id}"`)) wrong.push(`${page}: no heading is at ${path}#${id}`)
    }
  }
  if (wrong.length) throw new Error(wrong.join('\n'))
}

export default defineConfig({
  base: process.env.SITE_BASE || '/',
  title: 'Voxsaw',
  description: 'Segments organs in CT from few labelled scans and many without labels',
  rewrites: { 'README.md': 'index.md', 'results/README.md': 'results/index.md' },
  metaChunk: true,
  markdown: {
    html: false, // `<` in a page is a sign, not a tag
    // GitHub's names of headings, which links in the pages use
    anchor: { slugify: (s: string) => s.trim().toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, '').replace(/\s/g, '-') },
    config(md) {
      md.core.ruler.push('files', (state) => {
        for (const token of state.tokens) {
          for (const child of token.children ?? []) {
            const href = child.type === 'link_open' && child.attrGet('href')
            if (href) child.attrSet('href', external(decodeURI(href), state.env.relativePath))
          }
        }
      })
    },
  },
  themeConfig: {
    sidebar: sidebar(),
    outline: [2, 3],
    search: { provider: 'local' },
    socialLinks: [{ icon: 'github', link: repository }],
    editLink: { pattern: `${repository}/edit/main/docs/:path` },
  },
  buildEnd: ({ outDir }) => checkAnchors(outDir),
})
