"""Links as mails of services have them, with invented names and tokens: never opened, and harmless ones.

A line is a URL, and after ` | ` the text of the link where the text is what shows what it does. Every second line of
each list (`HELD_OUT`) was not looked at while the table of `kb.links.onetime` was extended.
"""

from __future__ import annotations

_ACTING = """
https://accounts.shop.example/email/change/confirm?k=Zm9vYmFyYmF6
https://link.news.shop.example/ls/u/3aB9xQ7LmP0/unsub
https://manage.kmail-lists.com/subscriptions/unsubscribe?a=QwErTy&c=01HZ&k=abc&m=01J&r=01K
https://manage.kmail-lists.com/subscriptions/web-view?a=QwErTy&c=01HZ&k=abc
https://t.sidekickopen78.com/s3t/c/5/f18dQhb0S7kF8cFDxjW2Hd-Q59hl3kW7_k2841CX6NGW4X9R9v1Qq9kG0
https://go.pardot.example/l/123456/2024-03-01/abc12?d=xyz
https://go.acme.example/e/123456/webinar-slides/8kz3vq/3847261938?h=QmFzZTY0
https://info.acme.example/MDY4LUpVRy0xMjMAAAGQx1a2b3c4d5e6f7g8h9=
https://app.acme.example/ev/YjI2ZDc3ZTAtMTI0Mg
https://e.customeriomail.com/e/c/eyJlbWFpbF9pZCI6ImRnVFVyd3NEQU
https://email.mg.acme.example/c/eJxFjkFqxDAMRU8T7xJkO7bjhReF0nsUWc4k
https://email.mg.acme.example/o/eJwUysEKwyAM
https://email.mg.acme.example/u/eJwtzDEOgzAM
https://r.sib.acme.example/mk/cl/f/sh/7nVU1aA2nfuMT9xRbXb4oe/abCdEfGh
https://r.mail.acme.example/mk/un/v2/sh/6rqJ8GoudeIR0aVn/xyz
https://sh.acme.example/tr/op/abcdefghijklmnop1234567
https://x1y2.mjt.example/lnk/AbCdE1fGhIjK/1/MnOpQrStUvWx/aHR0cHM6Ly9hY21l
https://x1y2.mjt.example/unsub2?m=AbCdE&b=1a2b3c4d&e=5e6f&x=Yq
https://acme.activehosted.com/proc.php?nl=3&c=12&m=34&s=9f8e7d6c5b4a3210&act=unsub
https://acme.activehosted.com/lt.php?x=4TZy~GE3ZHqa5X4xzQ~xUOdvZdL
https://acme.lt.acemlnc.com/Prod/link-tracker?notrack=1&redirectUrl=aHR0cHM&sig=HZk
https://clt1234567.bmetrack.com/c/l?u=1A2B3C4&e=5D6E7F&c=8A&email=abc
https://ablink.notify.shop.example/ss/c/u001.K1b2C3d4/4xy/AbCdEfGhIjKl/h0/h001.Zz
https://ablink.notify.shop.example/ss/o/u001.K1b2C3d4/4xy/h1.gif
https://ea.ofr.shop.example/r/?id=h2a3b4c5d,6e7f8a9b,1c2d3e4f
https://t.mail.shop.example/r/?id=h5f6e7d8c,9b0a1c2d
https://view.e.shop.example/?qs=7a8b9c0d1e2f3a4b5c6d7e8f9a0b1c2d
https://cl.s12.exct.example/profile_center.aspx?qs=7a8b9c0d1e2f3a4b5c6d
https://cl.s12.exct.example/unsub_center.aspx?qs=7a8b9c0d1e2f3a4b5c6d
https://links.mail.shop.example/els/v2/wKxZ7nVpQr9a/TkR1WVJ2/abc
https://post.spm.acme.example/f/a/KjHgFdSa~~/AAQRxQA~/RgRoVz
https://mailings.acme.example/re?l=D0In5cz7lIbg1s7Iu&req=unsubscribe
https://mailings.acme.example/re?l=D0In5cz7lIbg1s7Iu
https://nl.verlag.example/-lp/-/4n7/9yX/abmelden
https://nl.verlag.example/optiext/optiextension.dll?ID=AbCdEfGh1234567
https://93847.seu2.cleverreach.example/rmt/93847-1234567-8901
https://seu2.cleverreach.example/f/12345-67890/wwu/
https://t1a2b3c4.emailsys1a.net/mailing/123/4567890/1234567/9f8e/4a5b6c7d8e/unsubscribe/index.html
https://t1a2b3c4.emailsys1a.net/c/123/4567890/1234567/0/8901/4a5b6c7d8e.html
https://acme.emlnk.example/lt.php?x=3DZy~GDHJ3OZ6X
https://app.smartemail.example/opt/123/odhlaseni/98765/abcdef
https://www.eshop.example/newsletter/odhlasit?h=4f5e6d7c
https://www.eshop.example/odhlaseni-z-odberu/4f5e6d7c8b9a
https://www.eshop.example/registrace/potvrzeni/98/4f5e6d7c8b9a0d1e
https://www.eshop.example/uzivatel/aktivace?klic=4f5e6d7c
https://www.eshop.example/zapomenute-heslo/nove/4f5e6d7c8b9a
https://www.eshop.example/objednavka/zrusit/202612345/9a8b7c
https://www.eshop.example/overeno-zakazniky/dotaznik?unique=4f5e6d7c8b9a0d1e2f
https://www.heureka-like.example/dotaznik/objednavka/4f5e6d7c8b9a0d1e2f?o=1
https://rezervace.example/storno/8f7e6d5c
https://rezervace.example/termin/potvrdit/8f7e6d5c
https://kalendar.example/pozvanka/8f7e6d5c/prijmout
https://www.behorde.example/termin/absagen?code=8f7e6d5c
https://www.behorde.example/terminvereinbarung/bestaetigung/8f7e6d5c4b3a
https://konto.bank.example/registrierung/abschliessen?schluessel=8f7e6d5c
https://www.laden.example/konto/passwort/neu?schluessel=8f7e6d5c
https://www.laden.example/newsletter/anmeldung/bestaetigen/8f7e6d5c
https://www.laden.example/bewertung/abgeben/8f7e6d5c4b3a2918
https://www.laden.example/retoure/anmelden?bestellung=12345&plz=10115
https://login.microsoftonline.example/redeem?rd=https%3a%2f%2finvitations.microsoft.example%2fredeem%2f%3ftenant%3dabc%26user%3ddef%26ticket%3dghi
https://accounts.google.example/signin/continue?sarp=1&scc=1&plt=AKgnsbs
https://accounts.google.example/AccountDisavow?adt=AOX8kipAbCd
https://accounts.google.example/AccountChooser?Email=jana@acme.example&continue=https://myaccount.example/alert/nt/1
https://myaccount.google.example/notifications?rfn=325&rfnc=1&eid=-123456789&et=0
https://calendar.google.example/calendar/event?action=RESPOND&eid=bmVrZG8&rst=1&tok=NDIj
https://calendar.google.example/calendar/event?action=VIEW&eid=bmVrZG8&tok=NDIj
https://drive.google.example/drive/requestaccess?id=1AbCdEfGhIj&shareaction=grant&user=jana
https://groups.google.example/group/team/unsubscribe
https://github.example/notifications/unsubscribe-auth/AAB3CDEFGHIJKLMNOPQRSTU
https://github.example/settings/emails/123/confirm_verification/4f5e6d7c8b9a
https://github.example/orgs/acme/invitation?via_email=1
https://github.example/notifications/beacon/AAB3CDEFGHIJKLMN.gif
https://gitlab.example/-/sent_notifications/4f5e6d7c8b9a0d1e/unsubscribe
https://gitlab.example/users/confirmation?confirmation_token=AbCdEf
https://gitlab.example/-/profile/two_factor_auth?token=123
https://id.atlassian.example/signup/invite?signature=eyJ&source=1
https://id.atlassian.example/step-up/start?continue=https&token=ey
https://acme.atlassian.example/plugins/servlet/notifications/unwatch?issue=SHOP-1&jwt=ey
https://acme.atlassian.example/servicedesk/customer/portal/1/SHOP-12/approval?decision=approve&token=ey
https://acme.atlassian.example/servicedesk/customer/portal/1/SHOP-12/feedback?token=ey&rating=5
https://bitbucket.example/account/notifications/mute/eyJ0eXAiOiJKV1QiLCJhb
https://trello.example/1/notifications/unsubscribe/4f5e6d7c8b9a0d1e2f3a4b5c
https://trello.example/verify-email?t=4f5e6d7c8b9a0d1e2f3a4b5c
https://slack.example/z-app-1234567890-4567890123?s=Ab1Cd2Ef3G
https://join.slack.example/t/acme/invite/enQtOTk4NzY1NDMyMTA5
https://slack.example/checkcookie?redir=https%3A%2F%2Facme.slack.example%2Fsignin%3Fcode%3D12
https://acme.slack.example/x-p123-456-789/unsub/abc
https://zoom.example/w/81234567890?tk=AbCdEfGh.DQMA&pwd=Q1w2
https://zoom.example/meeting/register/tZUodOqqrj4pGd/success?user_id=AbC
https://events.zoom.example/ejl/AbCdEfGh1234567890IjKlMnOp
https://calendly.example/cancellations/4f5e6d7c-8b9a-4d1e-8f3a-4b5c6d7e8f9a
https://calendly.example/reschedulings/4f5e6d7c-8b9a-4d1e-8f3a-4b5c6d7e8f9a
https://cal.example/booking/4f5e6d7c8b9a?cancel=true&allRemainingBookings=false
https://doodle.example/meeting/participate/id/AbCdEfGh?voter=x1
https://www.eventbrite.example/mytickets/123456789?aff=eml&token=4f5e6d
https://www.eventbrite.example/e/team-day-tickets-123456789?invite=MTIz&ref=einvite&rsvp=yes
https://lu.example/event/evt-AbC/accept?pk=g-4f5e6d7c8b9a
https://app.docusign.example/signing/emails/v1-4f5e6d7c8b9a0d1e2f3a4b5c
https://eu.docusign.example/Signing/EmailStart.aspx?a=4f5e6d7c&etti=24&acct=1a2b
https://sign.acme.example/public/esign?tsid=CBFCIBAA3AAABLblqZhB
https://www.dropbox.example/l/scl/AAAbCdEfGhIjKlMnOp
https://www.dropbox.example/l/AABcDeFgHiJk/unsubscribe
https://wetransfer.example/downloads/4f5e6d7c8b9a/4f5e6d7c8b9a0d1e/1a2b3c?delete=true
https://www.notion.example/verifyNoPopupBlocker?state=eyJ
https://www.notion.example/loginwithemail?state=4f5e&password=word-word-word-word
https://www.figma.example/email_verification?token=4f5e
https://www.figma.example/team_invite/redeem/AbCdEfGhIjKlMnOpQrStUv
https://miro.example/app/accept-invite/AbC/
https://app.asana.example/-/verify?e=jana&t=4f5e6d
https://app.asana.example/app/asana/-/mark_task_complete?t=4f5e6d
https://linear.example/join/4f5e6d7c8b9a0d1e2f3a?s=1
https://acme.pagerduty.example/incidents/PABC123/acknowledge?token=AbCdEf
https://acme.opsgenie.example/alert/V2/ack/4f5e6d7c-8b9a-4d1e-8f3a-4b5c6d7e8f9a
https://grafana.example/alerting/silence/new?alertmanager=grafana&matcher=alertname%3DHigh
https://sentry.example/acme/settings/account/notifications/unsubscribe/project/1/?_=MTpabc
https://sentry.example/out/?url=https&sig=4f
https://jenkins.example/job/deploy/12/input/Approve/proceedEmpty?token=4f
https://ci.example/acme/gateway/deployments/44/approve
https://argocd.example/auth/callback?code=4f5e6d7c&state=1a2b3c
https://login.acme.example/adfs/ls/?SAMLRequest=fZJ&RelayState=x
https://sso.acme.example/oauth2/authorize?client_id=a&redirect_uri=b&response_type=code
https://idp.acme.example/auth/realms/acme/login-actions/action-token?key=eyJhbGciOi
https://idp.acme.example/auth/realms/acme/login-actions/reset-credentials?client_id=acc
https://auth.acme.example/passwordless/verify_redirect?scope=openid&connection=email&verification_code=123456
https://auth.acme.example/u/email-verification?ticket=4f5e6d7c8b9a#
https://auth.acme.example/lo/reset?ticket=4f5e6d7c8b9a
https://app.stripe.example/invoice/acct_1AbC/live_YWNjdF8xQWJD?s=em&pay=now
https://billing.stripe.example/p/session/live_YWNjdF8xQWJDLF9QUVJT
https://pay.acme.example/i/4f5e6d7c8b9a0d1e2f
https://www.paypal.example/signin/?returnUri=%2Fmyaccount%2Ftransfer%2Fpayrequest%2FU-4F5E&id=4f5e
https://tracking.post.example/redirect/umleiten?sendung=00340&aktion=abstellgenehmigung&h=4f5e
https://parcel.example/zasilka/Z1234567890/zmenit-doruceni?pin=4f5e6d
https://parcel.example/delivery/preferences/4f5e6d7c8b9a0d1e
https://survey.acme.example/s3/feedback?sglocale=en&snc=1234_abc&respondent=4f5e6d7c
https://www.surveymonkey.example/r/?sm=AbCdEfGhIjKlMnOpQrStUvWxYz_3D_3D
https://www.surveymonkey.example/optout.aspx?sm=AbCdEf
https://nps.acme.example/score/9?cid=4f5e6d7c8b9a
https://acme.typeform.example/to/AbC123#email=jana@acme.example&score=10
https://hr.acme.example/leave/requests/881/approve?mailtoken=4f5e
https://erp.acme.example/workflow/decide?wf=551&step=2&answer=reject&auth=4f5e
https://erp.acme.example/schvaleni/faktura/2026114/zamitnout?t=4f5e
https://erp.acme.example/freigabe/bestellung/2026114?entscheidung=ja&t=4f5e
https://helpdesk.acme.example/ticket/4711/close?key=4f5e6d
https://helpdesk.acme.example/tickets/4711/satisfaction/new/4f5e6d7c8b?intention=16
https://forum.acme.example/email/unsubscribe/4f5e6d7c8b9a0d1e2f3a4b5c6d7e8f9a0b1c2d3e
https://forum.acme.example/invites/AbCdEfGhIj?t=4f5e6d7c
https://lists.acme.example/mailman/confirm/team/4f5e6d7c8b9a0d1e2f3a4b5c6d7e8f9a0b1c2d3e
https://lists.acme.example/mailman/options/team/jana--at--acme.example?login-unsub=Unsubscribe
https://lists.acme.example/sympa/auto_signoff?list=team&email=jana%40acme.example
https://www.linkedin.example/comm/mynetwork/accept-invitation/123456/?midToken=AQ&midSig=0a
https://www.linkedin.example/comm/psettings/email-unsubscribe?lipi=urn&midToken=AQ
https://www.linkedin.example/e/v2?e=abc-lx9&lipi=urn&a=jobs&midToken=AQF4
https://www.facebook.example/o.php?k=AS0aBc&u=100001234&mid=5f6e7d8cG
https://twitter.example/i/redirect?url=https%3A%2F%2Ftwitter.example%2Faccount%2Fconfirm&t=1&cn=Z
https://www.acme.example/go/x81 | Odhlásit se z odběru novinek
https://www.acme.example/go/x82 | Vom Newsletter abmelden
https://www.acme.example/go/x83 | E-Mail-Adresse bestätigen
https://www.acme.example/go/x84 | Potvrdit e-mailovou adresu
https://www.acme.example/go/x85 | Confirm your subscription
https://www.acme.example/go/x86 | Jetzt bestätigen
https://www.acme.example/go/x87 | Ano, zúčastním se
https://www.acme.example/go/x88 | Yes, I will attend
https://www.acme.example/go/x89 | Ich nehme teil
https://www.acme.example/go/x90 | Manage your email preferences
https://www.acme.example/go/x91 | Update your preferences
https://www.acme.example/go/x92 | Abbestellen
https://www.acme.example/go/x93 | Zrušit odběr
https://www.acme.example/go/x94 | Set a new password
https://www.acme.example/go/x95 | Nastavit nové heslo
https://www.acme.example/go/x96 | Neues Passwort festlegen
https://www.acme.example/go/x97 | Schválit
https://www.acme.example/go/x98 | Zamítnout
https://www.acme.example/go/x99 | Genehmigen
https://www.acme.example/go/y01 | Ablehnen
https://www.acme.example/go/y02 | Cancel my appointment
https://www.acme.example/go/y03 | Termin absagen
https://www.acme.example/go/y04 | Přijmout pozvánku
https://www.acme.example/go/y05 | Einladung annehmen
https://www.acme.example/go/y06 | Rate your experience
https://www.acme.example/go/y07 | Pay now
https://www.acme.example/go/y08 | Zaplatit
https://www.acme.example/go/y09 | Jetzt bezahlen
"""

_HARMLESS = """
https://docs.acme.example/gateway/3.2/release-notes
https://docs.acme.example/en/latest/howto/authentication.html
https://docs.acme.example/api/v2/reference#operation/createOrder
https://docs.acme.example/security/oauth2/authorization-code
https://docs.acme.example/guides/email-verification
https://docs.acme.example/admin/unsubscribe-links
https://learn.vendor.example/en-us/azure/active-directory/develop/v2-oauth2-auth-code-flow
https://learn.vendor.example/de-de/windows/security/passwortlose-anmeldung
https://developer.vendor.example/docs/invitations-api
https://developer.vendor.example/reference/post_users-userid-reset-password
https://support.vendor.example/hc/en-us/articles/360012345678-How-to-reset-your-password
https://support.vendor.example/hc/cs/articles/360012345679-Jak-zmenit-heslo
https://support.vendor.example/hc/de/articles/360012345680-Newsletter-abbestellen
https://help.vendor.example/en/articles/4567890-unsubscribe-from-our-emails
https://help.vendor.example/en/collections/123-accounts-and-login
https://kb.vendor.example/article/AA-01234/0/Reset-the-admin-password.html
https://www.vendor.example/blog/2026/03/why-we-removed-passwords
https://www.vendor.example/blog/confirming-orders-faster
https://www.vendor.example/blog/tracking-pixels-explained
https://www.vendor.example/blog/5-tipu-jak-zabezpecit-ucet
https://www.vendor.example/press/2026-03-acme-acquires-globex
https://www.vendor.example/resources/whitepapers/zero-trust-access.pdf
https://www.vendor.example/pricing
https://www.vendor.example/products/gateway?utm_source=newsletter&utm_medium=email&utm_campaign=march
https://www.vendor.example/webinars/gateway-in-production?utm_source=mail
https://www.vendor.example/events/summit-2026/agenda
https://www.vendor.example/legal/privacy
https://www.vendor.example/legal/terms-of-service
https://www.vendor.example/careers/openings/senior-engineer-platform
https://www.vendor.example/company/newsroom
https://status.vendor.example/incidents/4f5e6d7c8b9a
https://status.vendor.example/history?page=2
https://status.vendor.example/
https://github.example/acme/gateway/pull/214
https://github.example/acme/gateway/pull/214#issuecomment-2345678901
https://github.example/acme/gateway/pull/214/files/4f5e6d7c8b9a0d1e2f3a4b5c6d7e8f9a0b1c2d3e
https://github.example/acme/gateway/commit/4f5e6d7c8b9a0d1e2f3a4b5c6d7e8f9a0b1c2d3e
https://github.example/acme/gateway/compare/v3.1...v3.2
https://github.example/acme/gateway/releases/tag/v3.2.0
https://github.example/acme/gateway/actions/runs/9876543210/job/12345678901
https://github.example/acme/gateway/security/advisories/GHSA-4f5e-6d7c-8b9a
https://github.example/acme/gateway/blob/main/src/auth/confirm_email.py#L12-L30
https://github.example/acme/gateway/tree/4f5e6d7c/docs/login
https://github.example/acme/gateway/discussions/88
https://gist.github.example/jana/4f5e6d7c8b9a0d1e2f3a4b5c6d7e8f9a
https://gitlab.example/acme/shop/-/merge_requests/77/diffs?commit_id=4f5e6d7c8b9a0d1e
https://gitlab.example/acme/shop/-/pipelines/123456
https://gitlab.example/acme/shop/-/jobs/987654
https://gitlab.example/acme/shop/-/issues/19#note_123456
https://gitlab.example/acme/shop/-/blob/4f5e6d7c8b9a0d1e2f3a4b5c6d7e8f9a0b1c2d3e/app/verify.rb
https://bitbucket.example/acme/shop/pull-requests/12/overview
https://acme.atlassian.example/browse/SHOP-1234
https://acme.atlassian.example/browse/SHOP-1234?focusedCommentId=56789&page=com.atlassian.jira.plugin.system.issuetabpanels%3Acomment-tabpanel
https://acme.atlassian.example/wiki/spaces/SHOP/pages/123456789/Login+flow
https://acme.atlassian.example/wiki/spaces/SHOP/pages/123456790/Password+reset+concept
https://acme.atlassian.example/wiki/x/AbCdEf
https://acme.atlassian.example/jira/software/projects/SHOP/boards/7?selectedIssue=SHOP-9
https://jira.acme.example/secure/RapidBoard.jspa?rapidView=12&view=planning
https://confluence.acme.example/display/OPS/Onboarding+new+users
https://confluence.acme.example/pages/viewpage.action?pageId=123456
https://trello.example/c/AbCdEfGh/12-fix-the-login
https://app.asana.example/0/1234567890123456/1234567890123457
https://linear.example/acme/issue/SHO-42/confirm-dialog-is-empty
https://www.notion.example/acme/Meeting-notes-4f5e6d7c8b9a0d1e2f3a4b5c6d7e8f9a
https://www.figma.example/file/AbCdEfGhIjKlMnOpQrStUv/Checkout?node-id=12%3A34
https://miro.example/app/board/uXjVAbCdEfG=/
https://docs.google.example/document/d/1AbCdEfGhIjKlMnOpQrStUvWxYz0123456789abcdefg/edit
https://docs.google.example/spreadsheets/d/1AbCdEfGhIjKlMnOpQrStUvWxYz0123456789abcdefg/edit#gid=0
https://drive.google.example/file/d/1AbCdEfGhIjKlMnOpQrStUvWxYz0123456/view?usp=sharing
https://drive.google.example/drive/folders/1AbCdEfGhIjKlMnOpQrStUvWxYz0123456
https://acme.sharepoint.example/sites/shop/Shared%20Documents/Plan%202026.docx
https://acme.sharepoint.example/:w:/s/shop/EAbCdEfGhIjKlMnOpQrStUvWxYzB?e=4f5e6d
https://acme.slack.example/archives/C01AB2CD3EF/p1710000000123456
https://stackoverflow.example/questions/12345678/how-to-verify-an-email-address-in-django
https://stackoverflow.example/a/12345679/98765
https://serverfault.example/questions/54321/ssh-login-without-password
https://news.ycombinator.example/item?id=39876543
https://www.reddit.example/r/devops/comments/1ab2cd3/approve_deployments_by_mail/
https://medium.example/@jana/passwordless-login-in-practice-4f5e6d7c8b9a
https://dev.example/jana/how-to-cancel-a-fetch-request-2f3a
https://www.youtube.example/watch?v=AbCdEfGhIjK&t=120s
https://youtu.example/AbCdEfGhIjK
https://vimeo.example/123456789/4f5e6d7c8b
https://en.wikipedia.example/wiki/Opt-out
https://en.wikipedia.example/wiki/Unsubscribe
https://cs.wikipedia.example/wiki/Heslo
https://de.wikipedia.example/wiki/Best%C3%A4tigung
https://www.rfc-editor.example/rfc/rfc8058
https://datatracker.ietf.example/doc/html/rfc6749
https://www.w3.example/TR/webauthn-3/
https://pypi.example/project/itsdangerous/2.2.0/
https://www.npmjs.example/package/passport-magic-login
https://docs.rs.example/oauth2/latest/oauth2/
https://hub.docker.example/r/acme/gateway/tags?page=1&name=3.2
https://registry.terraform.example/providers/hashicorp/aws/latest/docs/resources/iam_user_login_profile
https://cve.mitre.example/cgi-bin/cvename.cgi?name=CVE-2026-12345
https://nvd.nist.example/vuln/detail/CVE-2026-12345
https://www.heise.example/news/Passwort-Reset-bei-Acme-9876543.html
https://www.heise.example/hintergrund/Newsletter-richtig-versenden-9876544.html
https://www.spiegel.example/netzwelt/web/datenleck-was-nutzer-jetzt-tun-sollten-a-4f5e6d7c-8b9a-4d1e-8f3a-4b5c6d7e8f9a
https://www.zeit.example/digital/2026-03/abmelden-von-sozialen-netzwerken
https://www.idnes.example/zpravy/domaci/potvrzeni-o-studiu.A260301_123456_domaci_jan
https://www.lupa.example/clanky/jak-funguje-prihlaseni-pres-bankid/
https://www.root.example/clanky/overovani-e-mailu-v-praxi/
https://www.novinky.example/clanek/ekonomika-banky-meni-prihlaseni-40123456
https://www.nytimes.example/2026/03/01/technology/passwords-passkeys.html
https://www.theguardian.example/technology/2026/mar/01/how-to-unsubscribe-from-everything
https://arxiv.example/abs/2603.12345
https://arxiv.example/pdf/2603.12345v2
https://doi.example/10.1145/3597503.3639187
https://dl.acm.example/doi/10.1145/3597503.3639187
https://www.sciencedirect.example/science/article/pii/S0167404826001234
https://scholar.example/citations?user=AbCdEfGAAAAJ&hl=en
https://www.amazon.example/dp/B0AB12CD34
https://www.alza.example/gateway-router-x200-d1234567.htm
https://www.mall.example/p/klavesnice-acme-k20-100012345678
https://www.otto.example/p/acme-schreibtisch-S0A1B2C3/
https://www.ikea.example/de/de/p/kallax-regal-weiss-80275887/
https://shop.acme.example/search?q=confirm+dialog
https://shop.acme.example/category/office?sort=price&page=3
https://shop.acme.example/products/4711?variant=12345678901234
https://shop.acme.example/orders/status-explained
https://www.acme.example/team/jana-novakova
https://www.acme.example/kontakt
https://www.acme.example/ueber-uns
https://www.acme.example/o-nas/kariera
https://www.acme.example/podpora/casto-kladene-otazky
https://www.acme.example/files/cenik-2026.pdf
https://www.acme.example/wp-content/uploads/2026/03/bericht-q1-2026.pdf
https://www.acme.example/download/gateway-3.2.1-x86_64.tar.gz
https://cdn.acme.example/reports/2026/annual_report_4f5e6d7c.pdf
https://grafana.acme.example/d/AbCdEfGhI/gateway-overview?orgId=1&from=1710000000000&to=1710003600000
https://kibana.acme.example/app/discover#/view/4f5e6d7c-8b9a-4d1e-8f3a-4b5c6d7e8f9a
https://sentry.acme.example/organizations/acme/issues/4567890123/
https://jenkins.acme.example/job/deploy/812/console
https://sonar.acme.example/dashboard?id=acme%3Agateway&branch=main
https://nexus.acme.example/repository/releases/com/acme/gateway/3.2.0/gateway-3.2.0.pom
https://argocd.acme.example/applications/argocd/shop?view=tree
https://intranet.acme.example/news/2026/neue-reisekostenrichtlinie
https://intranet.acme.example/forms/urlaubsantrag-anleitung
https://wiki.acme.example/index.php?title=Onboarding&oldid=1234
https://wiki.acme.example/doku.php?id=ops:approval_process
https://www.gov.example/guidance/cancel-a-company-vehicle-registration
https://www.mpo.example/cz/rozcestnik/pro-media/tiskove-zpravy/potvrzeni-dotaci-2026--271234/
https://www.bmj.example/DE/themen/einwilligung_widerruf/einwilligung_node.html
https://eur-lex.europa.example/legal-content/EN/TXT/?uri=CELEX%3A32016R0679
https://www.openstreetmap.example/#map=17/50.08804/14.42076
https://maps.example/place/Acme+HQ/@50.0880,14.4207,17z/data=!3m1!4b1
https://weather.example/forecast/prague?days=7
https://www.timeanddate.example/worldclock/meetingtime.html?iso=20260312&p1=204
https://www.linkedin.example/company/acme-gateway/
https://www.linkedin.example/posts/jana-novakova_release-activity-7170000000000000000-AbCd
https://twitter.example/acme/status/1764000000000000000
https://mastodon.example/@acme/112000000000000000
https://www.eventbrite.example/e/team-day-tickets-123456789
https://www.meetup.example/prague-python/events/298765432/
https://calendly.example/jana-novakova/30min
https://bugs.debian.example/cgi-bin/bugreport.cgi?bug=1012345
https://bugzilla.example/show_bug.cgi?id=1876543
https://lore.kernel.example/lkml/20260301123456.GA12345@host.example/
https://groups.google.example/g/golang-nuts/c/AbCdEfGhIjK/m/LmNoPqRsAAAJ
https://discourse.example/t/login-loop-after-upgrade/12345/7
https://forum.vendor.example/viewtopic.php?f=12&t=34567&p=89012
https://www.acme.example/go/x01 | Read the release notes
https://www.acme.example/go/x02 | Zur Anleitung
https://www.acme.example/go/x03 | Celý článek
https://www.acme.example/go/x04 | the confirmed agenda
https://www.acme.example/go/x05 | Ablehnung des Antrags: Gründe
https://www.acme.example/go/x06 | How to approve a pull request
"""


def _each(lines: str) -> list[tuple[str, str]]:
    """URL and text of each line."""
    made = [line.partition(" | ") for line in lines.splitlines() if line.strip()]
    return [(url.strip(), text.strip()) for url, _, text in made]


ACTING, HARMLESS = _each(_ACTING), _each(_HARMLESS)
SEEN = (ACTING[::2], HARMLESS[::2])
HELD_OUT = (ACTING[1::2], HARMLESS[1::2])
