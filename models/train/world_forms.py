"""Sentence forms: one table that writes stories and checks them.

A line is   groups weight | template | what must hold | what changes.
Template:   {A} {B} {C} people (a person who begins the sentence may become He or She; {AB} a pair, or They),
            {A's} possessive, {his A} {him A} {he A} {boy A} words that follow the person's gender,
            {x} {y} things or animals as "the red kite", {a x} as "a red kite", {x~} may become "it",
            {c} a container, {n} an animal, {sound n} its voice, {p} {q} "the park", {@p} "in the park", {m} a mood,
            {f} a thing that stands at the place.   <walked|ran> verbs, [a|b] other words, the first ones more often.
Conditions: loc a b   a is directly at/with/in b        nloc a b  it is not
            near a b  both at the same place            away a b  not at the same place
            lie x A   x lies free where A is            ne p q    two different things
            is f a / not f a   flag f of a              eq r a v  property r of a is v
            feat f p  f stands at p (p may be a person: where that person is)
Changes:    loc, is, not, eq as above;   log WHAT slots   remembered for questions.
A word of one letter is a slot; anything longer stands for itself.
"""

FORMS = r"""
once 6 | Once upon a time, {A} was {@p}. | loc A p |
once 6 | Once upon a time, a {boy A} named {A} was {@p}. | loc A p |
once 5 | Once upon a time, there was a [little|kind|clever|brave|young] {boy A} named {A} {@p}. | loc A p |
once 6 | One day, {A} was {@p}. | loc A p |
once 3 | One day, a {boy A} named {A} was {@p}. | loc A p |
once 4 | One [sunny|warm|cold|bright|windy|quiet|cloudy] [morning|day|afternoon|evening], {A} was {@p}. | loc A p |
once 2 | One [morning|day|afternoon|evening], {A} <went|walked|came> to {p}. | nloc A p | loc A p
open,is 8 | {A} was {@p}. | loc A p |
open 4 | {A} was <playing|sitting|standing|waiting|resting> {@p}. | loc A p |
open 3 | A [little|young|kind|clever] {boy A} named {A} was {@p}. | loc A p |
open 3 | On [Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday], {A} was {@p}. | loc A p |
open 3 | It was [morning|noon|evening|a fine day|a cold day|a quiet day], and {A} was {@p}. | loc A p |
open 2 | Early in the morning, {A} <went|walked|came> to {p}. | nloc A p | loc A p
open 2 | {A} <spent> the day {@p}. | loc A p |
once2 5 | Once upon a time, {A} and {B} were {@p}. | loc A p; loc B p |
once2 3 | Once upon a time, two friends named {A} and {B} were {@p}. | loc A p; loc B p |
once2 4 | One day, {A} and {B} were {@p}. | loc A p; loc B p |
once2 3 | One [sunny|warm|cold|bright|windy] [morning|day|afternoon], {A} and {B} were {@p}. | loc A p; loc B p |
open2 5 | {AB} were {@p}. | loc A p; loc B p |
open2 3 | {AB} were <playing|sitting|standing|talking> {@p}. | loc A p; loc B p |
open2 2 | Two friends, {A} and {B}, were {@p}. | loc A p; loc B p |
is 4 | {A} <stood|sat|waited|rested> {@p}. | loc A p |
is 2 | At that time, {A} was {@p}. | loc A p |
is 2 | Meanwhile, {A} was {@p}. | loc A p |
friend 4 | {A's} friend {B} was {@q}. | loc B q |
friend 2 | {A} had a friend named {B}, who was {@q}. | loc B q |
friend 2 | {A} knew that {B} was {@q}. | loc B q |
too 4 | {A} was {@p} too. | loc A p |
too 3 | {A} was also {@p}. | loc A p |
meet 4 | {A} <met|saw> {B} {@p}. | loc A p; loc B p |
meet 2 | There {A} <met> {B}. | near A B |
hello 4 | "Hello, {B}!" said {A}. | near A B |
hello 3 | "Good [morning|day|evening], {B}," said {A}. | near A B |
hello 3 | {A} <smiled at|waved to|nodded to|ran up to|greeted> {B}. | near A B |
hello 2 | {A} <said> hello to {B}. | near A B |
hello 2 | "How are you, {B}?" asked {A}. | near A B |

own 8 | {A} had {a x}. | loc x A |
own 5 | {A} was <holding|carrying> {a x}. | loc x A |
own 3 | {A} <held|carried> {a x} in {his A} hands. | loc x A |
own 3 | {A} had {a x} with {him A}. | loc x A |
own 2 | {A} <owned> {a x} and took it everywhere. | loc x A |
like 4 | {A} <liked|loved|treasured> {x~} very much. | |
like 2 | {A} <thought> that {x} was the best thing in the world. | |
like 2 | {A} <took> good care of {x~}. | |
like 2 | {x} was very [dear|special|important] to {A}. | |
lies 6 | There was {a x} {@p}. | loc x p |
lies 4 | {a x} <was|lay|stood> {@p}. | loc x p |
lies,sees 4 | {A} <saw|noticed> {a x} {@p}. | loc A p; loc x p |
lies 1 | Somebody had <left> {a x} {@p}. | loc x p |
sees 3 | Next to the {f}, {A} <saw|noticed> {a x}. | lie x A; feat f A |
shut 4 | {c} was [closed|shut]. | not open c |
shut 2 | {A} saw that {c} was [closed|shut]. | near A c; not open c |
inside 5 | Inside {c} was {a x}. | is open c; loc x c |
inside 3 | In {c} there was {a x}. | is open c; loc x c |
inside 3 | {A} <looked|peeked> into {c} and saw {a x}. | near A c; is open c; loc x c |

take 6 | {A} <took|grabbed|lifted|seized> {x~}. | lie x A | loc x A
take 6 | {A} <picked> up {x}. | lie x A | loc x A
take 3 | {A} <picked> {x~} up. | lie x A | loc x A
take 2 | {A} <reached> for {x} and took it. | lie x A | loc x A
take 2 | {A} <bent> down and picked up {x}. | lie x A | loc x A
take 2 | {A} <picked> up {x} {@p}. | loc A p; lie x A | loc x A
drop 7 | {A} <put|left|placed|laid> {x~} {@p}. | loc x A; loc A p | loc x p
drop 3 | {A} <put|laid|set> {x~} down {@p}. | loc x A; loc A p | loc x p
drop 3 | {A} <dropped> {x~} {@p}. | loc x A; loc A p | loc x p
forget 4 | {A} <forgot> {x} {@p}. | loc x A; loc A p | loc x p
forget 3 | {A} <left> {x} behind {@p}. | loc x A; loc A p | loc x p
forget 3 | {x} <fell|slipped> down {@p}, but {A} did not see it. | loc x A; loc A p | loc x p
putin 7 | {A} <put|placed|packed|hid|dropped|stuffed> {x~} in {c}. | loc x A; near A c; is open c | loc x c
putin 3 | {A} <put|slid|pushed> {x~} into {c}. | loc x A; near A c; is open c | loc x c
putin 1 | With care, {A} <put|placed> {x} in {c}. | loc x A; near A c; is open c | loc x c
takeout 5 | {A} <took|pulled|lifted> {x~} out of {c}. | loc x c; near A c; is open c | loc x A
takeout 3 | {A} <took|got> {x~} from {c}. | loc x c; near A c; is open c | loc x A
takeout 2 | {A} <reached> into {c} and took {x}. | loc x c; near A c; is open c | loc x A
openc 5 | {A} <opened|unlocked> {c~}. | near A c; not open c | is open c
openc 2 | {A} <pulled> {c~} open. | near A c; not open c | is open c
openc 2 | {A} [slowly|quickly|gently] opened {c~}. | near A c; not open c | is open c
openc 2 | {A} <raised|lifted> the lid of {c}. | near A c; not open c | is open c
closec 5 | {A} <closed|shut|locked> {c~}. | near A c; is open c | not open c
closec 2 | {A} <pushed> {c~} shut. | near A c; is open c | not open c
closec 2 | Then {A} <closed|shut> {c}. | near A c; is open c | not open c
give 8 | {A} <gave|handed|passed|offered> {x~} to {B}. | loc x A; near A B | loc x B; log gave A x B
give 4 | {A} <gave|handed> {B} {x}. | loc x A; near A B | loc x B; log gave A x B
give 2 | {A} <held> out {x}, and {B} took it. | loc x A; near A B | loc x B; log gave A x B
give 2 | "Here is {x}," said {A}, and {he A} gave it to {B}. | loc x A; near A B | loc x B; log gave A x B
give 2 | "This is for you, {B}," said {A}, and {he A} gave {x} to {him B}. | loc x A; near A B | loc x B; log gave A x B
back 4 | {A} <gave|handed> {x~} back to {B}. | loc x A; near A B | loc x B; log gave A x B
back 3 | {A} <returned> {x~} to {B}. | loc x A; near A B | loc x B; log gave A x B
want 4 | "May I have {x}, please?" asked {A}. | nloc x A |
want 3 | {A} <asked|begged> {B} for {x}. | near A B; loc x B |
want 2 | "I would like to have {x}," said {A}. | nloc x A |
borrow 3 | "May I borrow {x}?" asked {A}. | nloc x A |
borrow 3 | {A} <asked> to borrow {x}. | nloc x A |
borrow 2 | "{B}, I need {x}," said {A}. | near A B; nloc x A |
lend 4 | {A} <lent> {x~} to {B}. | loc x A; near A B | loc x B; log gave A x B
lend 3 | "You may borrow it," said {A}, and {he A} gave {x} to {B}. | loc x A; near A B | loc x B; log gave A x B
trade 4 | {A} <traded|swapped|exchanged> {x} for {y} with {B}. | loc x A; loc y B; near A B | loc x B; loc y A; log trade A x y B
trade 4 | {A} <gave> {x} to {B}, and {B} gave {y} to {A}. | loc x A; loc y B; near A B | loc x B; loc y A; log trade A x y B
tradeask 3 | "Will you trade {y} for {x}?" asked {A}. | nloc y A; loc x A |
tradeask 2 | {A} <wanted> to trade {x} for {y}. | nloc y A; loc x A |
agree 3 | "Yes, that is fair," said {A}. | |
agree 3 | {A} <agreed|nodded> at once. | |
agree 2 | "Of course," said {A}. | |
sell 4 | {A} <bought> {x~} from {B}. | loc x B; near A B | loc x A; log bought A x B
sell 3 | {A} <paid> {B} [two|three|four|five|six] coins for {x}. | loc x B; near A B | loc x A; log bought A x B
sell 3 | {B} <sold> {x~} to {A}. | loc x B; near A B | loc x A; log bought A x B
seller 3 | {A} <sold> things {@p}. | loc A p |
seller 2 | {A} was a seller {@p}. | loc A p |
price 2 | "How much is {x}?" asked {A}. | nloc x A |
price 2 | {A} <looked> at {x} for a long time. | near A x |

move 8 | {A} <walked|went|ran|hurried|marched|rushed|strolled|skipped|jogged|wandered> from {p} to {q}. | loc A p; ne p q | loc A q
move 3 | {A} <left> {p} and <went|walked|ran> to {q}. | loc A p; ne p q | loc A q
move 6 | {A} <went|walked|ran|hurried|raced|headed> to {q}. | nloc A q | loc A q
move 3 | Then {A} <went|walked|ran> to {q}. | nloc A q | loc A q
move 2 | After that, {A} <went|walked|ran> to {q}. | nloc A q | loc A q
move 2 | Later, {A} <went|moved|traveled> to {q}. | nloc A q | loc A q
move2 6 | {AB} <walked|went|ran|hurried|strolled> from {p} to {q}. | loc A p; loc B p; ne p q | loc A q; loc B q
move2 4 | {AB} <went|walked|ran|hiked> to {q} together. | nloc A q; near A B | loc A q; loc B q
move2 2 | Then {A} and {B} <went|walked|ran> to {q}. | nloc A q; near A B | loc A q; loc B q
follow 4 | {A} <followed> {B} to {q}. | loc B q; nloc A q | loc A q
follow 3 | {A} <joined> {B} {@q}. | loc B q; nloc A q | loc A q
follow 2 | {A} <came> to {q} too. | nloc A q | loc A q
visit 4 | {A} <went|walked> to {q} to <see|visit|meet> {B}. | loc B q; nloc A q | loc A q
visit 2 | {A} <visited> {B} {@q}. | loc B q; nloc A q | loc A q
carry 5 | {A} <carried|took|brought> {x~} from {p} to {q}. | loc A p; loc x A; ne p q | loc A q
carry 5 | {A} <carried|took|brought> {x~} to {q}. | loc x A; nloc A q | loc A q
carry 3 | {A} <went|walked|ran> to {q} with {x}. | loc x A; nloc A q | loc A q
plan 3 | {A} <wanted|hoped|decided> to go to {q}. | nloc A q |
plan 2 | "I will go to {q}," said {A}. | nloc A q |
plan2 3 | "Let us go to {q}," said {A}. | nloc A q |
plan2 2 | "Do you want to go to {q}?" asked {A}. | nloc A q |
arrive 2 | Soon {A} was {@p}. | loc A p |
arrive 2 | {A} <arrived> {@p}. | loc A p |

mood,state 7 | {A} <felt|was> {m}. | | eq mood A m
mood,state 5 | {A} <felt|was> very {m}. | | eq mood A m
mood,state 3 | {A} <looked|seemed> {m}. | | eq mood A m
mood,state 3 | "I am {m}," said {A}. | | eq mood A m
mood 2 | This made {A} {m}. | | eq mood A m
nomood 3 | {A} was not {m} anymore. | eq mood A m | eq mood A none
nomood 2 | Now {A} was no longer {m}. | eq mood A m | eq mood A none
cry 3 | {A} <cried|sobbed|sighed|wept> [softly|quietly|a little]. | |
cry 2 | {A} <sighed> and looked down. | |
cry 2 | {A} <wiped> away a tear. | |
smile 4 | {A} <smiled|laughed|grinned|giggled|cheered>. | |
smile 2 | {A} had a big smile. | |
smile 2 | "Hooray!" <shouted|cried> {A}. | |
smile 2 | {A} <jumped> up and down. | |
smile 1 | {A} <clapped> {his A} hands. | |
thanks 4 | "Thank you, {B}!" said {A}. | near A B |
thanks 3 | "Thanks a lot, {B}," said {A}. | near A B |
thanks 3 | {A} <thanked|hugged> {B}. | near A B |
thanks 2 | "You are a good friend, {B}," said {A}. | near A B |
thanks 2 | {A} <said> thank you to {B}. | near A B |
welcome 3 | "You are welcome," said {A}. | |
welcome 2 | "I am glad to help," said {A}. | |
welcome 2 | "That is what friends are for," said {A}. | |

missing 4 | {A} could not <find> {x}. | away x A | is lost x
missing 3 | {A} saw that {x} was [gone|missing]. | away x A | is lost x
missing 3 | "Where is {x}?" asked {A}. | away x A | is lost x
missing 2 | "Oh no, I <lost> {x}!" cried {A}. | away x A | is lost x
ask 4 | "Have you <seen> {x}?" asked {A}. | away x A |
ask 3 | {A} <told> {B} about {x}. | near A B |
ask 3 | {A} <asked> {B} to help look for {x}. | near A B; away x A |
offer 3 | "Let us look for it," said {A}. | |
offer 3 | "I will help you, {B}," said {A}. | near A B |
offer 2 | "Do not worry, {B}," said {A}. | near A B |
offer 2 | {A} <wanted|offered> to help {B}. | near A B |
search 4 | {A} <looked|searched> for {x} {@p}, but it was not there. | loc A p; away x p |
search 3 | {A} <looked> behind the {f}, but {x} was not there. | feat f A; away x A |
search 2 | {A} <searched> near the {f} and did not find {x}. | feat f A; away x A |
search2 4 | {AB} <looked|searched> for {x} {@p}, but it was not there. | loc A p; loc B p; away x p |
search2 2 | {AB} <looked> behind the {f}, but {x} was not there. | near A B; feat f A; away x A |
find 5 | {A} <found|spotted|discovered> {x} {@p}. | loc A p; loc x p | not lost x; log found A x
find 3 | Behind the {f}, {A} <found|spotted> {x}. | lie x A; feat f A | not lost x; log found A x
find 3 | {A} <looked> behind the {f} and found {x}. | lie x A; feat f A | not lost x; log found A x
find 2 | At last, {A} <found> {x} {@p}. | loc A p; loc x p | not lost x; log found A x
broke 4 | {A} <dropped> {x}, and it broke. | loc x A; not broken x | is broken x
broke 4 | {x} <was> broken. | is broken x |
broke 3 | {A} <saw> that {x} was broken. | near A x; is broken x |
askfix 3 | "Can you <fix> {x}?" asked {A}. | is broken x |
askfix 2 | {A} <asked> {B} to fix {x}. | near A B; is broken x |
fix 3 | {A} <fixed|repaired|mended> {x~} with {y}. | loc y A; near A x; is broken x | not broken x; log fixed A x
fix 3 | {A} <used> {y} to fix {x}. | loc y A; near A x; is broken x | not broken x; log fixed A x
works 3 | Now {x} was as good as new. | not broken x |
works 2 | {x} <worked> again. | not broken x |
works 2 | {x} was not broken anymore. | not broken x |

game 3 | "Let us <play> hide and seek," said {A}. | |
game 3 | {AB} <played> hide and seek. | |
count 4 | {A} <counted> to [ten|twenty|fifty] {@p}. | loc A p |
count 3 | {A} <closed> {his A} eyes and counted to [ten|twenty|fifty]. | |
hide 4 | {A} <hid> {@q}. | nloc A q | loc A q; is hidden A; log hid A q
hide 3 | {A} <ran|crept|sneaked|tiptoed> to {q} and hid behind the {f}. | nloc A q; feat f q | loc A q; is hidden A; log hid A q
seek 4 | {A} <looked|searched> for {B} {@p}, but {he B} was not there. | loc A p; away B p |
seek 2 | "Where are you, {B}?" <called> {A}. | away A B |
caught 4 | {A} <found|caught|spotted> {B} {@q}. | loc A q; loc B q; is hidden B | not hidden B; log caught A B
caught 3 | {A} <looked> behind the {f} and found {B}. | near A B; feat f A; is hidden B | not hidden B; log caught A B
caught 2 | "I <see> you, {B}!" called {A}. | near A B; is hidden B | not hidden B; log caught A B

stuck 4 | {a n} was [stuck|trapped] {@q}. | loc n q; is stuck n |
stuck 2 | {A} <heard> that {a n} was stuck {@q}. | loc n q; is stuck n |
stuckhere 4 | {A} <saw> that {n} was [stuck|trapped] behind the {f}. | near A n; feat f A; is stuck n |
stuckhere 3 | {n} could not <move>. | is stuck n |
voice 3 | {n} {sound n}. | |
voice 3 | {n} {sound n} [loudly|softly|twice]. | |
voice 2 | {A} <heard> {n}. | near A n |
free 4 | {A} <freed|rescued|saved> {n}. | near A n; is stuck n | not stuck n; log saved A n
free 3 | {A} <pulled> {n} free. | near A n; is stuck n | not stuck n; log saved A n
free 2 | {A} <helped> {n} to get out. | near A n; is stuck n | not stuck n; log saved A n
pet 4 | {A} <petted|stroked|hugged|tickled> {n}. | near A n |
pet 2 | {A} <talked|whispered|sang> to {n}. | near A n |
pet 2 | {n} <liked|trusted> {A}. | |
fed 3 | {A} <fed> {x} to {n}. | loc x A; near A n | loc x gone; log fed A n
fed 2 | {A} <gave> {x} to {n}, and it ate it up. | loc x A; near A n | loc x gone; log fed A n
nfollow 3 | {n} <followed> {A} to {q}. | loc A q; nloc n q | loc n q
nfollow 2 | {n} <ran|came> to {q} too. | nloc n q | loc n q
release 3 | {A} <set> {n} free {@p}. | loc n A; loc A p | loc n p
release 2 | {A} <let> {n} go {@p}. | loc n A; loc A p | loc n p

eat 4 | {A} <ate|finished> {x~}. | loc x A | loc x gone; log ate A x
eat 3 | {A} <ate|enjoyed> {x~} with a smile. | loc x A | loc x gone; log ate A x
eat 2 | {A} <ate> up {x}. | loc x A | loc x gone; log ate A x
share 4 | {A} <shared> {x~} with {B}. | loc x A; near A B | loc x gone; log shared A x B
share 3 | {A} <cut> {x} in two and gave one half to {B}. | loc x A; near A B | loc x gone; log shared A x B
make 4 | {A} <made|built|crafted> {a x} {@p}. | loc A p; loc x A | log made A x
bake 4 | {A} <baked|cooked|prepared> {a x} {@p}. | loc A p; loc x A | log made A x
use 4 | {A} <played> with {x~}. | loc x A |
use 3 | {A} <looked at|admired|cleaned|turned> {x~} for a while. | loc x A |
use 2 | {A} <held> {x~} up high. | loc x A |
tool 4 | {A} <worked> with {x~}. | loc x A |
tool 2 | {A} <used> {x~} all day. | loc x A |
tune 3 | {A} <played> a [merry|slow|sad|lovely] tune on {x}. | loc x A |
wear 3 | {A} <tried> on {x}. | loc x A |
wear 2 | {x} <fit> {A} very well. | loc x A |
show 4 | {A} <showed> {x~} to {B}. | loc x A; near A B |
show 2 | "Look at {x}," said {A}. | loc x A |
teach 3 | {A} <taught|showed> {B} how to use {x}. | near A B |
learn 3 | {A} <tried|practiced> again and again. | |
learn 2 | {A} <learned> fast. | |
bday 3 | It was {A's} birthday. | |
bday 2 | Today was {A's} birthday. | |
gift 3 | {A} <wanted> to give {x} to {B}. | loc x A |
gift 2 | {A} had a present for {B}. | |
surprise 3 | "What a [nice|great|lovely] surprise!" <said|cried> {A}. | |
surprise 2 | {A} could not <believe> {his A} eyes. | |
wish 3 | {A} <wanted|needed> {a x}. | |
wish 2 | {A} <wished> for {a x}. | |

race 3 | {AB} <raced> from {p} to {q}. | loc A p; loc B p; ne p q | loc A q; loc B q
race 2 | {AB} <ran> a race from {p} to {q}. | loc A p; loc B p; ne p q | loc A q; loc B q
raceask 3 | "Let us <run> a race," said {A}. | |
raceask 2 | "I am faster than you, {B}," said {A}. | near A B |
won 4 | {A} <won> the race. | | log won A
won 2 | {A} was the first one {@p}. | loc A p | log won A
well 3 | "Well done, {B}," said {A}. | near A B |
well 2 | {A} <shook> {B's} hand. | near A B |
rain 3 | It <started|began> to rain. | not rain sky | is rain sky
rain 2 | Dark clouds came, and rain fell. | not rain sky | is rain sky
norain 3 | The rain <stopped>. | is rain sky | not rain sky
norain 2 | The rain was over, and the sun came out. | is rain sky | not rain sky
sun 3 | The sun was <shining>. | not rain sky |
sun 2 | There was no cloud in the sky. | not rain sky |
wet 3 | {A} got wet. | is rain sky |
wet 2 | Water <ran|dripped> down {A's} nose. | is rain sky |

fill 3 | {A} <looked at|walked around|touched|pointed at> the {f}. | feat f A |
fill 2 | {A} <stood|sat> next to the {f}. | feat f A |
fill 2 | {A} <looked|turned> around. | |
fill 2 | {A} <thought> for a moment. | |
fill 2 | {A} <took> a deep breath. | |
fill 2 | {A} <hummed|whistled|sang> a [little|merry|quiet] tune. | |
fill 1 | {A} <scratched|shook|nodded> {his A} head. | |
fill 1 | {A} <yawned|sneezed|stretched|blinked>. | |
both 3 | {AB} <talked|laughed|sang|danced|played|chatted> for a while. | near A B |
both 3 | {AB} <sat|stood> next to the {f}. | near A B; feat f A |
both 2 | {A} <told> {B} a [joke|story|secret|riddle]. | near A B |
both 2 | {AB} <had|shared> a good time. | near A B |
tidyask 2 | "I must <tidy> up," said {A}. | |
tidyask 2 | {A} <started|wanted> to tidy up. | |
tidy 2 | Now everything was in its place. | |
tidy 2 | {A} was proud of the good work. | |
sold 2 | {A} had no coins left. | |

end 4 | It was a [good|great|lovely|happy|wonderful] day. | |
end 4 | The end. | |
end 2 | That was a day to remember. | |
end 2 | Everyone was happy. | |
end 2 | {A} would never <forget> that day. | |
end 2 | It was the [best|nicest|finest] day of the year. | |
end2 4 | {A} and {B} were [good|best|true] friends. | |
end2 3 | From then on, {A} and {B} were good friends. | |
end2 2 | That day, {A} <learned> that it is good to <share|help|ask|care>. | |
"""
