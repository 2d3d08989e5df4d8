"""Sentences with what they state, and sentences that state nothing; told on 20 May 2026, a Wednesday."""

from __future__ import annotations

TOLD_AT = "2026-05-20T12:00:00Z"

_STATED = """
Alice was the lead until Q2 => Alice has_role lead ..2026-04-01
Alice leads the fundraising project => Alice leads fundraising
Vera was the lead of the lighthouse until 2026-03-31 => Vera leads lighthouse ..2026-04-01
Nina was the head of the harbour until Q2 => Nina leads harbour ..2026-04-01
Since January 2026 Omar has been the manager of our bakery => Omar manages bakery 2026-01-01..
The lead of the lighthouse is Vera => Vera leads lighthouse
Bob replaced Vera as head of the night market in April =>
    Vera leads night market ..2026-04-01 | Bob leads night market 2026-04-01..
Ines is the founder of the old theatre => Ines founded theatre
Carol became the chair of the billing system in March 2026 => Carol chairs billing system 2026-03-01..
Tom isn't the owner of the boathouse anymore => no longer Tom owns boathouse
Alice at Google => Alice works_at Google
User works at Google as a senior engineer => User works_at Google
User's sister Ana lives in Porto => Ana sister_of User | Ana lives_in Porto
Bob replaced Alice as lead of the fundraising project in May =>
    Alice leads fundraising ..2026-05-01 | Bob leads fundraising 2026-05-01..
Bob took over the fundraising project from Alice on 2026-05-01 =>
    Alice leads fundraising ..2026-05-01 | Bob leads fundraising 2026-05-01..
Alice handed over the fundraising project to Bob => Alice leads fundraising ..told | Bob leads fundraising
Alice is no longer the lead => no longer Alice has_role lead
Alice no longer works at Google => no longer Alice works_at Google
Alice doesn't work at Google anymore => no longer Alice works_at Google
Alice joined Google in March 2024 and left in May 2025 => Alice works_at Google 2024-03-01..
Alice works at Google and lives in Zurich => Alice works_at Google | Alice lives_in Zurich
Alice is Bob's sister => Alice sister_of Bob
Bob is Alice's manager => Alice reports_to Bob
Alice's manager is Bob => Alice reports_to Bob
The lead of the fundraising project is Carol => Carol leads fundraising
Our CTO is Bob => Bob has_role cto
Alice and Bob work at Google => Alice works_at Google | Bob works_at Google
The fundraising project is led by Alice since March 2026 => Alice leads fundraising 2026-03-01..
Acme was founded by Carol Jones in 2019 => Carol Jones founded Acme 2019-01-01..
Alice married Bob in June 2020 => Alice married_to Bob 2020-06-01..
Alice moved to Berlin last month => Alice lives_in Berlin 2026-04-01..
In March 2024, Dr. Alice Smith became head of marketing => Dr. Alice Smith leads marketing 2024-03-01..
Alice was the lead of fundraising in Q1, Bob became the lead in Q2 =>
    Alice leads fundraising 2026-01-01..2026-04-01 | Bob leads fundraising 2026-04-01..
Bob will be the lead from Q3 => Bob has_role lead 2026-07-01..
Alice stepped down as CEO of Acme in January 2026 => Alice ceo_of Acme ..2026-01-01
Alice used to work at Google => Alice works_at Google ..told
Alice has been leading the launch team since March 2025 => Alice leads launch 2025-03-01..
Alice is a senior engineer at Google => Alice works_at Google
Alice is the fundraising lead => Alice leads fundraising
My sister Ana lives in Porto => Ana sister_of User | Ana lives_in Porto
I work at Acme => User works_at Acme
Alice Smith, the head of marketing, lives in Oslo => Alice Smith leads marketing | Alice Smith lives_in Oslo
Alice reports to Bob => Alice reports_to Bob
Google's CEO is Sundar Pichai => Sundar Pichai ceo_of Google
Sundar Pichai is the CEO of Google => Sundar Pichai ceo_of Google
User's dog is named Rex => Rex dog_of User
User's wife Anne works at Siemens => Anne married_to User | Anne works_at Siemens
User is married to Anne => Anne married_to User
Alice owns the billing service => Alice owns billing service
Alice took over as lead of the platform team in Q2 => Alice leads platform 2026-04-01..
Alice lived in Paris from 2019 to 2021 => Alice lives_in Paris 2019-01-01..2022-01-01
Bob (CTO of Acme) moved to Lisbon in March => Bob cto_of Acme | Bob lives_in Lisbon 2026-03-01..
Carol joined the launch team, Bob left it => Carol member_of launch
Alice leads the fundraising project and reports to Bob => Alice leads fundraising | Alice reports_to Bob
Maria Lopez was appointed CFO of Globex on 2025-09-01. => Maria Lopez cfo_of Globex 2025-09-01..
The migration project was led by Omar until March 2026. => Omar leads migration ..2026-03-01
Since January 2026 Priya has been the product owner of the billing platform. =>
    Priya product_owner_of billing platform 2026-01-01..
Priya manages Tom. => Tom reports_to Priya
Tom Baker is the manager of the Berlin office. => Tom Baker manages Berlin office
Ines is in charge of procurement. => Ines leads procurement
Lena studies at Stanford. => Lena studies_at Stanford
Nina has lived in Lisbon since 2021. => Nina lives_in Lisbon 2021-01-01..
Nina has worked at Siemens since 2019. => Nina works_at Siemens 2019-01-01..
Peter used to be the CTO of Initech. => Peter cto_of Initech ..told
Sam was born in Dublin. => Sam born_in Dublin
Zoe is a member of the design team. => Zoe member_of design
Zoe is on the design team. => Zoe member_of design
Meta acquired Figma in 2024. => Meta acquired Figma 2024-01-01..
Carla works at Bosch. She lives in Stuttgart. => Carla works_at Bosch | Carla lives_in Stuttgart
Omar left Siemens in 2023. => Omar works_at Siemens ..2023-01-01
Omar quit Siemens last month. => Omar works_at Siemens ..2026-04-01
Sarah retired from Boeing at the end of 2025. => Sarah works_at Boeing ..2026-01-01
Jonas divorced Lea in 2022. => Jonas married_to Lea ..2022-01-01
Jonas and Lea married in 2015. => Jonas married_to Lea 2015-01-01..
Eva works with Paul on the launch project. => Eva works_with Paul
Acme is headquartered in Denver. => Acme based_in Denver
Tom works for Acme as a designer. => Tom works_at Acme
Sofia teaches at Harvard. => Sofia works_at Harvard
Yuki is Kenji's daughter. => Yuki daughter_of Kenji
Bob succeeded Alice as CEO of Acme in February 2026. => Alice ceo_of Acme ..2026-02-01 | Bob ceo_of Acme 2026-02-01..
Alice was replaced by Bob as lead of the fundraising project on 2026-05-01. =>
    Alice leads fundraising ..2026-05-01 | Bob leads fundraising 2026-05-01..
Frida will take over the fundraising project from Bob in Q3. =>
    Bob leads fundraising ..2026-07-01 | Frida leads fundraising 2026-07-01..
Alice and Bob lead the fundraising project. => Alice leads fundraising | Bob leads fundraising
Alice, Bob and Carol work at Acme. => Alice works_at Acme | Bob works_at Acme | Carol works_at Acme
Update: Carol is now the lead of the launch team. => Carol leads launch
As of 2026-04-01, Carol leads the launch team. => Carol leads launch 2026-04-01..
Dave led the website redesign from January to March 2026. => Dave leads website redesign 2026-01-01..2026-04-01
Alice is the lead through Q2. => Alice has_role lead ..2026-07-01
Bob has been CFO of Globex since last year. => Bob cfo_of Globex 2025-01-01..
Bob worked at Acme (2019–2021) => Bob works_at Acme 2019-01-01..2022-01-01
Sam was born in Dublin in 1990. => Sam born_in Dublin 1990-01-01..
Update: Google's CEO is Sundar Pichai => Sundar Pichai ceo_of Google
Dave Miller Jr. joined OpenAI on March 3rd, 2025. => Dave Miller Jr works_at OpenAI 2025-03-03..
Alice was the team lead from 2024-01-01 to 2024-06-30 => Alice has_role team lead 2024-01-01..2024-07-01
José García leads the migration project since Q3 2025 => José García leads migration 2025-07-01..
CTO Bob Smith lives in Rome. => Bob Smith lives_in Rome
Bob Smith, CTO, lives in Rome. => Bob Smith has_role cto | Bob Smith lives_in Rome
User's manager is Priya Nair => User reports_to Priya Nair
User works as a nurse at Mercy Hospital => User works_at Mercy Hospital
User moved from Lisbon to Porto last week => User lives_in Porto 2026-05-11..
User moved to Porto from Lisbon => User lives_in Porto
User started a new job at Critical Software => User works_at Critical Software
User got a job at Google => User works_at Google
User has been working at Google since 2020 => User works_at Google 2020-01-01..
User is a data engineer at Critical Software => User works_at Critical Software
User's boss Maria lives in Rome => User reports_to Maria | Maria lives_in Rome
User works for Red Cross => User works_at Red Cross
User has a sister named Ana who lives in Porto => Ana sister_of User | Ana lives_in Porto
User has a dog named Rex => Rex dog_of User
User lives with their partner Tom in Berlin => User lives_in Berlin
User lives in Berlin with Tom => User lives_in Berlin
User studied at the University of Porto from 2011 to 2016 => User studies_at University of Porto 2011-01-01..2017-01-01
User's friend Tom works at Meta. => Tom friend_of User | Tom works_at Meta
heads up: Priya took over the billing platform from Tom yesterday =>
    Tom leads billing platform ..2026-05-19 | Priya leads billing platform 2026-05-19..
Marta Ruiz has been head of design at Globex since April 2025. => Marta Ruiz leads design 2025-04-01..
From 1 March Kenji reports to Aisha. => Kenji reports_to Aisha 2026-03-01..
Omar stepped down as CFO of Initech at the end of Q1. => Omar cfo_of Initech ..2026-04-01
The Berlin office is run by Heidi. => Heidi manages Berlin office
Hugo no longer lives in Lyon; he moved to Toulouse in January. =>
    no longer Hugo lives_in Lyon | Hugo lives_in Toulouse 2026-01-01..
Sofia isn't the product owner of the mobile app anymore. => no longer Sofia product_owner_of mobile app
Our team lead is Elena. => Elena has_role team lead
Nadia is the tech lead for the search platform. => Nadia tech_lead_of search platform
Nadia is now tech lead of the search platform, replacing Igor. => Nadia tech_lead_of search platform
Igor was tech lead of the search platform from 2023 until March 2026. =>
    Igor tech_lead_of search platform 2023-01-01..2026-03-01
Paul owns the onboarding service since February. => Paul owns onboarding service 2026-02-01..
Since the reorg, Paul owns the onboarding service. => Paul owns onboarding service
Dr. Wei Chen joined the genomics group in 2021 and now heads it. => Dr. Wei Chen member_of genomics 2021-01-01..
Acme Corp acquired Initech in 2022. => Acme Corp acquired Initech 2022-01-01..
Ravi works remotely for Atlassian. => Ravi works_at Atlassian
Ravi is employed by Atlassian. => Ravi works_at Atlassian
Luisa is a nurse at Mercy Hospital, her husband Pedro works at Bosch. => Luisa works_at Mercy Hospital
Emma's daughter Mia studies at ETH. => Mia daughter_of Emma | Mia studies_at ETH
Mia is the daughter of Emma. => Mia daughter_of Emma
Oscar is Emma's ex-husband. => Oscar ex_husband_of Emma
Emma divorced Oscar last year. => Emma married_to Oscar ..2025-01-01
Bob and Alice co-founded Globex in 2018. => Bob founded Globex 2018-01-01.. | Alice founded Globex 2018-01-01..
Carol chairs the safety committee until June 2026. => Carol chairs safety committee ..2026-06-01
Carol will chair the safety committee from July. => Carol chairs safety committee 2026-07-01..
On 2026-02-14 Dave became captain of the chess club. => Dave captain_of chess club 2026-02-14..
Zoe left the design team in March and joined the launch team. =>
    Zoe member_of design ..2026-03-01 | Zoe member_of launch
Tim retired last year from Siemens. => Tim works_at Siemens ..2025-01-01
my boss is Karen => User reports_to Karen
User is the CEO of Globex => User ceo_of Globex
User used to live in Oslo until 2019, now User lives in Bergen. =>
    User lives_in Oslo ..2019-01-01 | User lives_in Bergen
Since 2020, User has lived in Bergen => User lives_in Bergen 2020-01-01..
User's colleague Tom Baker moved to Seattle two months ago =>
    Tom Baker works_with User | Tom Baker lives_in Seattle 2026-03-01..
Alice (lead until Q2) handed the launch project to Bob => Alice leads launch ..told | Bob leads launch
Vera was promoted to head of sales in January 2026 => Vera leads sales 2026-01-01..
The head of sales is no longer Vera. => no longer Vera leads sales
After lunch, Alice leads the launch team. => Alice leads launch
Alice was the lead until Q2 and Bob is the lead now. => Alice has_role lead ..2026-04-01 | Bob has_role lead
Starting in July, Tom Weber will head the Berlin office. => Tom Weber leads Berlin office 2026-07-01..
Lena was our CFO from 2019 through 2023. => Lena has_role cfo 2019-01-01..2024-01-01
Karl was succeeded by Lena as CFO of Globex in 2019. =>
    Karl cfo_of Globex ..2019-01-01 | Lena cfo_of Globex 2019-01-01..
Anita reported to Raj until March; she reports to Mei now. => Anita reports_to Raj ..2026-03-01 | Anita reports_to Mei
Anita's line manager is Mei since April. => Anita reports_to Mei 2026-04-01..
The search team is headed by Nadia. => Nadia leads search
Nadia, who leads the search team, lives in Prague. => Nadia leads search | Nadia lives_in Prague
Viktor left Databricks for Snowflake in May. =>
    Viktor works_at Databricks ..2026-05-01 | Viktor works_at Snowflake 2026-05-01..
Viktor has left Databricks. => Viktor works_at Databricks ..told
Viktor has joined Snowflake. => Viktor works_at Snowflake
Ingrid sits on the safety committee. => Ingrid member_of safety committee
Joan works at Pfizer in Basel. => Joan works_at Pfizer
Joan's employer is Pfizer. => Joan works_at Pfizer
Joan is employed at Pfizer as a chemist. => Joan works_at Pfizer
Sergio, our treasurer, moved to Valencia in 2024. => Sergio has_role treasurer | Sergio lives_in Valencia 2024-01-01..
Sergio has been treasurer of the rowing club since 2022. => Sergio treasurer_of rowing club 2022-01-01..
User is engaged to Sam. => Sam engaged_to User
User's mother Rosa was born in Naples. => Rosa mother_of User | Rosa born_in Naples
User founded Brightleaf in 2021. => User founded Brightleaf 2021-01-01..
User reports to Claire at Brightleaf. => User reports_to Claire
User is a member of the rowing club. => User member_of rowing club
User's best friend is Omar. => Omar friend_of User
User and Sam moved to Vienna in January 2026. => User lives_in Vienna 2026-01-01.. | Sam lives_in Vienna 2026-01-01..
Amira is CTO and co-founder of Nimbus Labs. => Amira cto_of Nimbus Labs | Amira founded Nimbus Labs
Nimbus Labs is based in Tallinn. => Nimbus Labs based_in Tallinn
Nimbus Labs was acquired by SAP in March 2025. => SAP acquired Nimbus Labs 2025-03-01..
Ben stopped working at Nimbus Labs in June 2025. => Ben works_at Nimbus Labs ..2025-06-01
Project Falcon is led by Dana Scott. => Dana Scott leads Project Falcon
Dana Scott leads Project Falcon. => Dana Scott leads Project Falcon
Dana leads engineering at Acme. => Dana leads engineering
Dana used to lead engineering until last year. => Dana leads engineering ..2025-01-01
Dana has led the infra team since 2024-05-01. => Dana leads infra 2024-05-01..
"""
_NOTHING = """
Alice is and was happy.
Bob and Alice are friends.
Alice was the first person to lead the launch team.
The launch team leads the company in revenue.
Bob leads Alice to the exit.
Alice manages to work at night.
Bob joined forces with Alice.
Alice knows Bob's address.
Bob moved to the next topic.
Bob moved to London Bridge station.
Alice works for free.
Alice works for the greater good.
Alice works at it.
Bob runs the tests.
Bob runs Linux.
Bob owns Apple stock.
Bob uses Google.
Bob heads the list.
Alice leads in sales.
Alice leads sales calls.
Alice is the lead singer.
Alice is the head of the household.
Alice is the head of the queue.
Bob is the owner of the thing.
Bob was the lead of the film.
Alice is the head of the nurses.
Bob is the lead of the day.
Alice is the head of the project.
Is Vera the lead of the lighthouse?
Vera might be the lead of the lighthouse.
Bob is in Berlin.
Bob is from Berlin.
The lead of the story is Anna Karenina.
Alice was in the lead until Q2.
Bob took the lead.
Alice lives in hope.
Alice lives in Python.
Bob left Alice.
Bob left Alice in charge.
Bob replaced Alice.
Alice is the CEO now that Bob left.
Alice studies Python.
Bob married young.
Bob bought Alice a ring.
Alice reports that Bob left Google.
Alice remembers when Bob worked at Google.
Alice is proud that Bob leads the launch team.
Bob leads the launch team, or so he thinks.
Only Bob can lead the launch team.
Nobody knows whether Bob leads the launch team.
No one but Alice leads the launch team.
User is the king of Google.
Sprint lead Alice Smith is out sick.
Alice and Bob met at Google.
the company is led by Alice
User's flight to Berlin leaves on May 5.
Google Maps works at night.
Bob is Google's biggest fan.
Alice is the owner of a cat.
Alice owns the decision.
Alice leads the weekly meeting.
Alice leads the discussion about the launch project.
Alice was late for Google until Q2.
Ingrid is on parental leave.
Viktor quit in May.
Amira is the CTO, Ben the CFO.
User's company is called Brightleaf.
Does Alice lead the fundraising project?
Who leads the fundraising project?
If Alice works at Google, she lives in Zurich.
Alice might move to Berlin.
Alice may join Google in June.
Alice does not work at Google.
Alice isn't the lead of the fundraising project.
Bob said that Alice leads the fundraising project.
"Alice leads the fundraising project", he wrote.
In the novel Alice works at Google.
Alice wants to move to Berlin.
Alice plans to join Google in May.
Alice never worked at Google.
Imagine Alice leads the fundraising project.
Suppose Bob is the CEO of Acme.
Alice should lead the fundraising project.
Alice would like to work at Google.
Alice applied for a job at Google.
Maybe Bob is the new lead.
Apparently Alice left Google.
Alice almost joined Google.
Let Alice lead the fundraising project.
Please make Bob the lead of the launch team.
Tell Bob that Alice is the lead.
Alice met Bob at Google.
User had lunch with Alice at Google.
Alice leads by example.
Alice runs marathons.
Bob manages expectations well.
Alice works hard.
Bob lives alone.
Alice joined Bob for lunch.
Alice left early.
The Q2 fundraising target is 2M€
User likes the Google logo.
The lead is expected next week.
Alice thinks Bob leads the launch team.
Alice uses a pen.
Bob knows a lot about Rust.
According to Bob, Alice works at Google.
User asked whether Alice works at Google.
Alice will be the lead.
Alice will join Google.
Without Bob, Alice leads nothing.
Nobody leads the launch team.
Alice found a bug in the launch service.
Bob was in Berlin.
Alice talked about Google.
The meeting with Alice is in Porto.
Alice has a meeting at Google.
User prefers tea.
Bob owns a car.
Bob bought an Apple laptop.
Bob reports bugs to Jira.
Bob reports to the office every day.
Alice is happy.
Alice is a customer of Google.
Alice is at home.
Alice is the best.
For example, Alice leads the launch team.
Alice works at night.
Alice works at Google conferences.
Bob lives in fear.
Bob moved to strike the motion.
Bob moved to Slack.
Alice is taller than Bob.
Alice was a lead in a play.
the project is led by example
Alice's birthday is May 5
Leads come from Google.
The project lead is on holiday.
Alice joined the call.
Alice left the meeting.
Alice leads a busy life.
Alice heads home.
Alice heads to Berlin.
Alice chairs are comfortable.
Bob took over an hour.
Bob took over.
Alice handed the phone to Bob.
Alice replaced the printer.
Bob is Alice.
Bob is like Alice's brother.
Alice is not Bob's sister.
Is Alice Bob's sister?
Alice hopes Bob marries Carol.
User dreamt that Alice lives in Paris.
Alice's manager is on holiday.
Alice works with Python.
Alice works on Mondays.
Alice lives in May Street.
Old lead: Bob. New lead: Carol.
Elena leads our team.
Alice was the lead before Bob.
We moved the server to Berlin.
He lives in Rome.
José García dirige el proyecto
Former CEO of Acme Hans Meyer lives in Vienna.
From Q1 2026 to Q2 2026 Dave led the redesign.
In the novel, Alice works at Google.
If Bob agrees, Alice leads the launch team.
> Alice leads the launch team
‘Alice leads the launch team’ was the headline.
Alice doesn't work at Google.
Bob won't be the lead of the launch team.
Can Bob be the lead of the launch team?
Bob could be promoted to head of sales.
I dreamt that Bob became CEO of Acme.
It is unclear whether Bob is the CEO of Acme.
Bob is rumoured to be the new CEO of Acme.
Alice would have joined Google.
"""


def stated() -> list[tuple[str, list[str]]]:
    """Each sentence with its relations: source, relation, target, and `from..until` where it tells of a time."""
    pairs = (line.split(" => ") for line in _STATED.replace(" =>\n    ", " => ").strip().splitlines())
    return [(sentence, relations.split(" | ")) for sentence, relations in pairs]


NOTHING = _NOTHING.strip().splitlines()
