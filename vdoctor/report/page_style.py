"""The style of the HTML report: light and dark, for screens of any width and for paper. No address in it."""

from __future__ import annotations

STYLE = """
:root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--dim:#57606a;--line:#d0d7de;--box:#f6f8fa;--link:#0a58ca;--mark:#fff3bf;--shade:#1b1f2440;
--bad:#b42318;--warn:#8a5300;--good:#1a7f37;--launch:#7d8590;--weight_load:#2f74c0;--kv_init:#12807a;--graph_capture:#8250df;
--runtime:#2c8a43;--c0:#2f74c0;--c1:#b35900;--c2:#8250df;--c3:#12807a;--c4:#b42318;--c5:#5f6b14;--c6:#a0408f;--c7:#57606a}
@media (prefers-color-scheme:dark){:root{--bg:#0f1419;--fg:#e6edf3;--dim:#9da7b3;--line:#3a424d;--box:#171d25;--link:#6cb6ff;
--mark:#4a3f12;--shade:#e6edf350;--bad:#ff8a80;--warn:#f2b84b;--good:#6bd68a;--launch:#8b949e;--weight_load:#58a6ff;--kv_init:#39c5bb;
--graph_capture:#bc8cff;--runtime:#56d364;--c0:#58a6ff;--c1:#f0a45d;--c2:#bc8cff;--c3:#39c5bb;--c4:#ff8a80;--c5:#c9d15a;--c6:#f29be0;--c7:#9da7b3}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:66rem;padding:1rem 1.25rem 3rem;background:var(--bg);color:var(--fg);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","PingFang SC","Microsoft YaHei","Noto Sans CJK SC",sans-serif}
h1{font-size:1.5rem;line-height:1.3;margin:.5rem 0}h2{font-size:1.2rem;margin:2rem 0 .5rem;border-bottom:1px solid var(--line);padding-bottom:.25rem}
h4,h5{font-size:1rem;margin:.3rem 0}mark{background:none;color:inherit}
h3{font-size:1.05rem;margin:1.25rem 0 .4rem}p{margin:.4rem 0}a{color:var(--link)}
.skip{position:absolute;left:-99rem}.skip:focus{left:1rem;top:.5rem;background:var(--bg);padding:.4rem .8rem;border:2px solid var(--link)}
.dim{color:var(--dim)}.small{font-size:.875rem}.failed{color:var(--bad)}.stalled,.degraded,.incomplete,.not_vllm{color:var(--warn)}.healthy{color:var(--good)}
.facts{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;margin:.25rem 0;padding:0;list-style:none;color:var(--dim)}
.tag{display:inline-block;border:1px solid var(--line);border-radius:1rem;padding:0 .6rem;font-size:.85rem;color:var(--dim);white-space:nowrap}
code,pre,.log{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:.85rem}
code{overflow-wrap:anywhere}
pre{margin:.4rem 0;padding:.6rem .8rem;background:var(--box);border:1px solid var(--line);border-radius:6px;overflow-x:auto;white-space:pre-wrap;overflow-wrap:anywhere}
pre:focus-visible,.scroll:focus-visible,summary:focus-visible,a:focus-visible{outline:3px solid var(--link);outline-offset:2px}
pre.command{border-left:4px solid var(--good)}
.log{margin:.4rem 0;padding:.5rem 0;background:var(--box);border:1px solid var(--line);border-radius:6px;overflow-x:auto}
.log ol{margin:0;padding:0;list-style:none}.log li{display:flex;padding:0 .8rem}.log li.hit{background:var(--mark)}
.log .no{flex:none;width:4.5rem;padding-right:.8rem;text-align:right;color:var(--dim)}.log li.hit .no{color:var(--fg)}.log .text{white-space:pre-wrap;overflow-wrap:anywhere;min-width:0}
figure{margin:.8rem 0}figcaption{color:var(--dim);font-size:.9rem}
.fix{border-left:4px solid var(--line);padding:.1rem 0 .1rem .9rem;margin:.9rem 0}.fix.safe{border-color:var(--good)}.fix.lossy{border-color:var(--warn)}
.scroll{overflow-x:auto;background:linear-gradient(90deg,var(--bg) 40%,transparent) left/2.5rem calc(100% + 1px) no-repeat local,
linear-gradient(270deg,var(--bg) 40%,transparent) right/2.5rem calc(100% + 1px) no-repeat local,linear-gradient(90deg,var(--shade),transparent) left/.8rem 100% no-repeat scroll,
linear-gradient(270deg,var(--shade),transparent) right/.8rem 100% no-repeat scroll}
table{border-collapse:collapse;font-size:.9rem;margin:.4rem 0;min-width:50%}
th,td{border-bottom:1px solid var(--line);padding:.25rem .75rem .25rem 0;text-align:left;vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}td code{overflow-wrap:anywhere}td.wide{min-width:13rem}
details{margin:.6rem 0;border:1px solid var(--line);border-radius:6px;padding:.3rem .8rem}summary{cursor:pointer;font-weight:600;padding:.15rem 0}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;margin:.3rem 0;padding:0;list-style:none;font-size:.875rem}
.legend svg{width:.9rem;height:.9rem;vertical-align:-.1rem;margin-right:.35rem}
svg.chart{display:block;width:100%;min-width:40rem;height:auto}
svg text{fill:var(--fg);font:12px system-ui,"Noto Sans","Microsoft YaHei",sans-serif}svg .dimtext{fill:var(--dim)}
svg .grid{stroke:var(--line);stroke-width:1}svg .total{stroke:var(--bad);stroke-width:1.5;stroke-dasharray:6 4}
svg .curve{fill:none;stroke-width:2;stroke-linejoin:round}svg .band{opacity:.13}svg .open{opacity:.6}
svg .frame{fill:none;stroke:var(--line)}svg .seg{stroke:var(--bg);stroke-width:1.5}
.f-launch{fill:var(--launch)}.f-weight_load{fill:var(--weight_load)}.f-kv_init{fill:var(--kv_init)}.f-graph_capture{fill:var(--graph_capture)}.f-runtime{fill:var(--runtime)}
.f-0{fill:var(--c0)}.f-1{fill:var(--c1)}.f-2{fill:var(--c2)}.f-3{fill:var(--c3)}.f-4{fill:var(--c4)}.f-5{fill:var(--c5)}.f-6{fill:var(--c6)}.f-7{fill:var(--c7)}.f-rest{fill:var(--line)}
.s-0{stroke:var(--c0)}.s-1{stroke:var(--c1)}.s-2{stroke:var(--c2)}.s-3{stroke:var(--c3)}.s-4{stroke:var(--c4)}.s-5{stroke:var(--c5)}.s-6{stroke:var(--c6)}.s-7{stroke:var(--c7)}
footer{margin-top:3rem;color:var(--dim);font-size:.875rem;border-top:1px solid var(--line);padding-top:.6rem}
@media (max-width:40rem){.log .no{width:3rem;padding-right:.5rem}.log li{padding:0 .4rem}body{padding:.75rem}th,td{padding-right:.5rem;font-size:.85rem}svg.chart{min-width:34rem}}
@media print{details{border:0;padding:0}body{max-width:none}.skip{display:none}}
"""
